#pragma once
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/bf16.h"
#include "core/error.h"

namespace mxtape {

/// Up to four extents, outermost first.
struct Shape {
  std::array<std::int64_t, 4> dims{};
  int rank = 0;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) {
    require(extents.size() <= dims.size(), "Shape: rank {}, want at most 4", extents.size());
    for (auto d : extents) dims[std::size_t(rank++)] = d;
  }
  std::int64_t operator[](int axis) const { return dims[std::size_t(axis < 0 ? axis + rank : axis)]; }
  std::int64_t count() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dims[std::size_t(i)];
    return n;
  }
  std::int64_t cols() const { return rank ? (*this)[-1] : 1; }
  /// Rows when all axes but the last are folded together.
  std::int64_t rows() const {
    std::int64_t n = 1;
    for (int i = 0; i + 1 < rank; ++i) n *= dims[std::size_t(i)];
    return n;
  }
  bool operator==(const Shape&) const = default;
  std::string text() const;
};

/// What a tensor holds: activations and masters f32 or bf16, tokens i32, packed codes u8, sums of squares
/// f64.
enum class DType : std::uint8_t { f32, bf16, i32, u8, f64 };
constexpr std::int64_t size_of(DType t) {
  return t == DType::bf16 ? 2 : t == DType::u8 ? 1 : t == DType::f64 ? 8 : 4;
}
constexpr std::string_view name_of(DType t) {
  constexpr std::string_view names[] = {"f32", "bf16", "i32", "u8", "f64"};
  return names[std::size_t(t)];
}
template <class T>
inline constexpr DType dtype_of = DType::f32;
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<double> = DType::f64;

/// A contiguous, row-major block of numbers on one device. Copies share storage.
class Tensor {
 public:
  Tensor() = default;
  Tensor(std::shared_ptr<void> data, Shape shape, DType dtype)
      : data_(std::move(data)), shape_(shape), dtype_(dtype) {}

  const Shape& shape() const { return shape_; }
  std::int64_t rows() const { return shape_.rows(); }
  std::int64_t cols() const { return shape_.cols(); }
  std::int64_t count() const { return shape_.count(); }
  std::int64_t bytes() const { return data_ ? count() * size_of(dtype_) : 0; }
  DType dtype() const { return dtype_; }
  explicit operator bool() const { return data_ != nullptr; }

  template <class T = float>
  T* data() const {
    assert(!data_ || dtype_of<T> == dtype_);
    return static_cast<T*>(data_.get());
  }
  void* raw() const { return data_.get(); }
  /// The elements, for tensors in host memory.
  template <class T = float>
  std::span<T> host() const {
    return {data<T>(), std::size_t(count())};
  }
  /// True if no other Tensor shares this storage, so that writing in place is invisible.
  bool unique() const { return data_.use_count() == 1; }
  /// The same storage seen in another shape of as many elements.
  Tensor reshaped(Shape shape) const {
    require(shape.count() == count(), "reshape: {} to {}; the number of elements must stay", shape_.text(),
            shape.text());
    return {data_, shape, dtype_};
  }
  /// The elements from `first` on, in the same storage.
  Tensor part(std::int64_t first, Shape shape) const {
    require(first >= 0 && first + shape.count() <= count(), "part: {} elements from {} on, of {}",
            shape.count(), first, count());
    return {{data_, static_cast<char*>(data_.get()) + first * size_of(dtype_)}, shape, dtype_};
  }

 private:
  std::shared_ptr<void> data_;
  Shape shape_;
  DType dtype_ = DType::f32;
};

}  // namespace mxtape
