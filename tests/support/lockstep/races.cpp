#include "tests/support/lockstep/races.h"

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "tests/support/lockstep/block.h"

namespace mxtape::lockstep::host {
namespace {

enum class Who : unsigned { nobody, thread, warp_of_it, block_of_it, several_blocks };

/// Who used a byte, and when: after how many barriers of the block, and syncs of the warp since. One word,
/// as there is one for every byte read and one for every byte written.
struct Use {
  struct Field {
    unsigned shift, bits;
  };
  static constexpr Field who_{0, 3}, index_{3, 10}, syncs_{13, 13}, barriers_{26, 12}, block_{38, 26};
  static constexpr unsigned warp_shift = index_.shift + std::countr_zero(warp);  // its index, and all above
  std::uint64_t word = 0;

  std::uint64_t get(Field f) const { return word >> f.shift & ((std::uint64_t{1} << f.bits) - 1); }
  /// False if the value is too large for its field.
  bool set(Field f, std::uint64_t value) {
    word ^= (get(f) ^ value) << f.shift;
    return value >> f.bits == 0;
  }
  Who who() const { return Who(get(who_)); }
  unsigned index() const { return unsigned(get(index_)); }  // of the thread; of one of them
  bool same_block(const Use& o) const { return get(block_) == o.get(block_); }
  bool same_warp(const Use& o) const { return index() / warp == o.index() / warp; }
  bool operator==(const Use&) const = default;
};

/// True if what `now` does comes after all of `before`.
bool ordered(const Use& before, const Use& now) {
  if (before == now || before == Use{}) return true;
  if (before.who() == Who::several_blocks || !before.same_block(now)) return false;
  if (before.get(Use::barriers_) < now.get(Use::barriers_)) return true;
  if (before.who() == Who::thread && before.index() == now.index()) return true;
  return before.who() <= Who::warp_of_it && before.same_warp(now) &&
         before.get(Use::syncs_) < now.get(Use::syncs_);
}

/// True if a read by `now` adds nothing to these readers. It needs no check against the last write either:
/// readers of a warp or a block are two threads or more. At most one of them wrote, so the check of another
/// one holds for `now`.
bool among(const Use& readers, const Use& now) {
  const std::uint64_t differ = readers.word ^ now.word;
  switch (readers.who()) {
    case Who::several_blocks:
      return true;
    case Who::block_of_it:
      return differ >> Use::barriers_.shift == 0;
    case Who::warp_of_it:
      return differ >> Use::warp_shift == 0;
    default:
      return differ == 0;
  }
}

/// Readers that nothing orders, as one.
Use together(const Use& a, const Use& b) {
  const Who who = a.who() == Who::several_blocks || !a.same_block(b) ? Who::several_blocks
                  : a.who() <= Who::warp_of_it && a.same_warp(b)     ? Who::warp_of_it
                                                                     : Who::block_of_it;
  Use all = b;
  all.set(Use::who_, std::uint64_t(who));
  return all;
}

constexpr std::size_t most_pages = std::size_t{1} << 16;  // 1 GiB of them

/// By words of four bytes, and by bytes where somebody used a part of one.
struct Page {
  struct Uses {
    Use write, read;
    bool operator==(const Uses&) const = default;
  };
  static constexpr std::size_t word = 4;
  std::uint64_t of = 0;  // the launch, or in shared memory the block, whose uses it holds
  std::array<Uses, page_bytes / word> words;
  std::bitset<page_bytes / word> split;
  std::array<Uses, page_bytes> bytes;  // where it is split

  void forget(std::uint64_t user) {
    of = user;
    words.fill({});
    split.reset();
  }
  /// Those of the bytes at offset `at`, up to `end` at most, and behind them the next offset.
  std::pair<Uses*, std::size_t> uses(std::size_t at, std::size_t end) {
    const std::size_t w = at / word;
    if (!split[w]) {
      if (at % word == 0 && end - at >= word) return {&words[w], at + word};
      std::fill_n(bytes.begin() + std::ptrdiff_t(w * word), word, words[w]);
      split.set(w);
    }
    return {&bytes[at], at + 1};
  }
};

#ifdef MXTAPE_LOCKSTEP_RACES
const bool wanted = [] {
  const char* const mode = std::getenv("MXTAPE_LOCKSTEP");
  return !mode || std::string_view(mode) != "trusting";
}();
#else
constexpr bool wanted = false;
#endif
constinit bool watching = false;     // a thread of a kernel is running
constinit std::uintptr_t stack = 0;  // of that thread, which no other uses

struct Watch {
  Use now;
  std::uint64_t launches_and_blocks = 0, launch = 0, block = 0;
  std::uintptr_t exchange = 0, exchange_end = 0;  // memory of the running thread, of no other
  std::string found;
  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages;
  struct Recent {
    std::uintptr_t number = 0;
    Page* page = nullptr;
  };
  std::array<Recent, 256> recent;  // pages, by their numbers' low bits
};
constinit Watch* instance = nullptr;  // never destroyed: destructors of static objects are watched too
Watch& watch() {
  if (!instance) instance = new Watch;
  return *instance;
}

/// Whether note() would change nothing, found quickly; only for whole words. Launches and blocks share a
/// counter, so `of` shows for either kind of memory whether a page is current.
bool is_noted(const Watch& w, std::uintptr_t at, std::size_t bytes, bool writes) {
  const std::uintptr_t number = at / page_bytes, from = at % page_bytes / Page::word;
  const auto [known, page] = w.recent[number % w.recent.size()];
  if (!page || known != number || (page->of != w.launch && page->of != w.block)) return false;
  if ((at | bytes) % Page::word != 0 || at % page_bytes + bytes > page_bytes) return false;
  for (std::size_t i = from; i < from + bytes / Page::word; ++i) {
    const Page::Uses& uses = page->words[i];
    if (page->split[i]) return false;
    if (writes ? uses != Page::Uses{w.now, {}} : !among(uses.read, w.now)) return false;
  }
  return true;
}

Page& page_of(std::uintptr_t address, std::uint64_t user) {
  Watch& w = watch();
  const std::uintptr_t number = address / page_bytes;
  Watch::Recent& recent = w.recent[number % w.recent.size()];
  if (!recent.page || recent.number != number) {
    std::unique_ptr<Page>& page = w.pages[number];
    if (!page) page = std::make_unique<Page>();
    recent = {number, page.get()};
  }
  Page& page = *recent.page;
  if (page.of != user) page.forget(user);
  return page;
}

std::string text_of(const Use& use) {
  switch (use.who()) {
    case Who::warp_of_it:
      return fmt::format("threads of warp {}", use.index() / warp);
    case Who::block_of_it:
      return "threads of several warps";
    case Who::several_blocks:
      return "threads of several blocks";
    default:
      return fmt::format("thread {} of block {}", use.index(), use.get(Use::block_));
  }
}

void report(const char* does, const char* memory, const Use& other, const char* did) {
  Watch& w = watch();
  w.found = fmt::format(
      "lockstep: {}: {} {} {} memory that {}", block().kernel, text_of(w.now), does, memory,
      other == Use{} ? did : fmt::format("{} {}, and nothing orders the two", text_of(other), did));
}

void note(const void* address, std::size_t bytes, bool writes) {
  Watch& w = watch();
  if (!w.found.empty()) return;
  auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t end = at + bytes;
  if (at >= w.exchange && at < w.exchange_end) return;
  const bool shared = is_shared(address);
  const bool of_host = at - reinterpret_cast<std::uintptr_t>(&lockstep_place) < sizeof lockstep_place;
  const char* const does = writes ? "writes" : "reads";
  const char* const memory = shared ? "shared" : "global";
  while (at < end) {
    Page& page = page_of(at, shared ? w.block : w.launch);
    const std::uintptr_t first = at / page_bytes * page_bytes;
    const std::size_t last = std::min(end - first, page_bytes);
    Page::Uses before, after;  // of a neighbour: mostly they share their uses
    bool known = false;
    for (std::size_t offset = at - first; offset < last;) {
      const auto [uses, next] = page.uses(offset, last);
      offset = next;
      if (!writes && among(uses->read, w.now)) continue;  // nobody has written since
      if (!known || *uses != before) {
        known = true;
        before = *uses;
        if (!ordered(before.write, w.now)) return report(does, memory, before.write, "wrote");
        if (writes && !ordered(before.read, w.now)) return report(does, memory, before.read, "read");
        if (!writes && shared && !of_host && before.write == Use{})
          return report(does, memory, {}, "its block never wrote");
        after = writes ? Page::Uses{w.now, {}}
                       : Page::Uses{before.write,
                                    ordered(before.read, w.now) ? w.now : together(before.read, w.now)};
      }
      *uses = after;
    }
    at = first + last;
  }
}

}  // namespace

bool finds_races() { return wanted; }

void watch_launch() {
  if (!finds_races()) return;
  Watch& w = watch();
  w.launch = ++w.launches_and_blocks;
  w.found.clear();  // of a launch that ended in another error
  if (w.pages.size() > most_pages) w.pages.clear(), w.recent.fill({});
}

void watch_block(std::size_t index) {
  if (!finds_races()) return;
  Watch& w = watch();
  w.block = ++w.launches_and_blocks;
  w.now = {};
  require(w.now.set(Use::block_, index), "lockstep: {}: no races can be looked for in so many blocks",
          block().kernel);
}

void watch_thread() {
  if (!finds_races()) return;
  Watch& w = watch();
  const Block& b = block();
  const unsigned index = b.running->thread.x;
  w.now.set(Use::who_, std::uint64_t(Who::thread));
  w.now.set(Use::index_, index);
  require(w.now.set(Use::barriers_, b.barriers) && w.now.set(Use::syncs_, b.warp_syncs[index / warp]),
          "lockstep: {}: no races can be looked for behind so many barriers", b.kernel);
  stack = reinterpret_cast<std::uintptr_t>(b.running->stack.get());
  w.exchange = reinterpret_cast<std::uintptr_t>(b.exchange.data());
  w.exchange_end = w.exchange + b.exchange.size();
  watching = true;
}

void watch_nothing() { watching = false; }

void require_no_race() {
  Watch& w = watch();
  if (w.found.empty()) return;
  throw Error(ExitCode::internal, std::exchange(w.found, {}));
}

namespace {

bool on_stack(const void* address) { return reinterpret_cast<std::uintptr_t>(address) - stack < stack_bytes; }

/// Whether the running thread did something new.
bool is_new(const void* address, std::size_t bytes, bool writes) {
  return watching && !on_stack(address) &&
         !is_noted(*instance, reinterpret_cast<std::uintptr_t>(address), bytes, writes);
}

}  // namespace

void note_read(const void* address, std::size_t bytes) {
  if (is_new(address, bytes, false)) StandIn().note_read(address, bytes);
}
void note_write(const void* address, std::size_t bytes) {
  if (is_new(address, bytes, true)) StandIn().note_write(address, bytes);
}

StandIn::StandIn() : watched_(std::exchange(watching, false)) {}
StandIn::~StandIn() { watching = watched_; }
void StandIn::note_read(const void* address, std::size_t bytes) const {
  if (watched_ && !on_stack(address)) note(address, bytes, false);
}
void StandIn::note_write(const void* address, std::size_t bytes) const {
  if (watched_ && !on_stack(address)) note(address, bytes, true);
}

}  // namespace mxtape::lockstep::host
