#include "dist/mpi/mpi_group.h"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>

#include "dist/deadline.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;
constexpr const char* module_name = "libmxtape_mpi.so";
constexpr std::int64_t most_bytes = std::int64_t{1} << 30;  // of a message
constexpr int head_tag = 0, body_tag = 1, first_place_tag = 2;

/// The first message of all_gather() to each rank: a length, and as much of the text as fits.
struct Head {
  std::int64_t bytes = 0;
  std::array<char, 120> text{};
  bool whole() const { return bytes <= std::int64_t(text.size()); }
};

/// "Open MPI v4.1.4", "MPICH 4.0.2" of what MPI_Get_library_version says: a name, and lines of other things.
std::string short_version(const std::string& library) {
  std::istringstream words(library.substr(0, library.find_first_of(",\n")));
  std::string version;
  for (std::string word; words >> word;)
    if (word != "Version:") version += (version.empty() ? "" : " ") + word;
  return version;
}

std::array<fs::path, 2> places_of_module() {
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path();
  return {program / module_name, program.parent_path() / "lib" / "mxtape" / module_name};
}

}  // namespace

const MxtapeMpi& load_mpi_module() {
  std::string tried;
  for (const fs::path& file : places_of_module()) {
    if (!fs::exists(file)) {
      tried += fmt::format("{}{}", tried.empty() ? "" : ", ", file.string());
      continue;
    }
    // Global: MPI's own plugins look for its symbols.
    void* const module = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    require(module != nullptr, ExitCode::usage, "{}: cannot be loaded: {}", file.string(), ::dlerror());
    const auto table = reinterpret_cast<MxtapeMpiTable>(::dlsym(module, "mxtape_mpi"));
    require(table && table()->version == mpi_table_version, ExitCode::usage,
            "{}: belongs to another mxtape; install both together", file.string());
    return *table();
  }
  fail(ExitCode::usage,
       "started as one of several processes, and this mxtape has no MPI: there is no {}; install MPI's "
       "packages "
       "(libopenmpi-dev openmpi-bin) and build it again with ./run build, or start it without a launcher: "
       "--devices N trains on N processes of one machine (docs/devices.md)",
       tried);
}

MpiGroup::MpiGroup(const MxtapeMpi& mpi, const Launch& launch, double timeout_seconds)
    : mpi_(mpi), timeout_(timeout_seconds) {
  int rank = 0, size = 1;
  check(mpi_.init(&rank, &size), "MPI_Init_thread");
  std::array<char, 1024> library{};
  check(mpi_.library(library.data(), int(library.size())), "MPI_Get_library_version");
  description_ = short_version(library.data());
  if (size != launch.size) mpi_.finalize();
  require(size == launch.size, ExitCode::usage,
          "{} started {} processes, but {}, which this mxtape was built with, finds {}: the two are not of "
          "one kind, and each process would train alone; start it with the mpirun of {}",
          launch.launcher, launch.size, description_, size, description_);
  place_.size = size;
  place_.launcher = launch.launcher;
  place_.rank = rank;
  meet();
}

MpiGroup::~MpiGroup() { mpi_.finalize(); }

void MpiGroup::meet() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  place_.host = host.data();
  hosts_.assign(std::size_t(place_.size), "");
  hosts_ = all_gather(place_.host, Patience::alone);
  place_.local_size = int(std::count(hosts_.begin(), hosts_.end(), place_.host));
  place_.local_rank = int(std::count(hosts_.begin(), hosts_.begin() + place_.rank, place_.host));
  const std::size_t count = std::set<std::string>(hosts_.begin(), hosts_.end()).size();
  description_ =
      fmt::format("{}, {} processes on {} host{}", description_, place_.size, count, count == 1 ? "" : "s");
}

void MpiGroup::check(int error, const char* call) const {
  if (error == 0) return;
  std::array<char, 512> text{};
  mpi_.error(error, text.data(), int(text.size()));
  fail(ExitCode::peer, "{}: {}", call, text.data());
}

template <class Memory>
void MpiGroup::begin(Operate<Memory> operation, std::type_identity_t<Memory*> data, std::int64_t bytes,
                     int rank, int tag, std::vector<Operation>& all) {
  using Byte = std::conditional_t<std::is_const_v<Memory>, const char, char>;
  for (std::int64_t first = 0; first < bytes; first += most_bytes) {
    MxtapeMpiRequest* request = nullptr;
    check(
        operation(static_cast<Byte*>(data) + first, std::min(most_bytes, bytes - first), rank, tag, &request),
        "MPI_Isend or MPI_Irecv");
    all.push_back({request, rank});
  }
}

void MpiGroup::test(std::vector<Operation>& all) const {
  std::erase_if(all, [&](const Operation& operation) {
    int done = 0;
    check(mpi_.test(operation.request, &done), "MPI_Test");
    return done != 0;
  });
}

void MpiGroup::wait(std::vector<Operation>& all, Patience patience, const std::string& what) {
  constexpr double turn = 0.25;  // the lowest rank speaks first, and ends the others
  Deadline deadline(timeout_, patience, turn * place_.rank);
  for (std::int64_t polls = 0; !all.empty(); ++polls) {
    test(all);
    if (all.empty()) return;
    constexpr std::int64_t eager = 200, sleepy = 1000;
    if (polls < eager) continue;
    polls < sleepy ? void(::sched_yield()) : void(::usleep(50));
    if (!deadline.has_passed()) continue;
    std::set<int> missing;
    for (const Operation& operation : all) missing.insert(operation.rank);
    std::vector<std::string> names;
    for (const int rank : missing) names.push_back(fmt::format("{} ({})", rank, hosts_[std::size_t(rank)]));
    deadline.blame(what, names);
  }
}

std::vector<std::string> MpiGroup::all_gather(std::string_view mine, Patience patience) {
  const auto size = std::size_t(place_.size);
  Head head;
  head.bytes = std::int64_t(mine.size());
  mine.copy(head.text.data(), head.text.size());
  std::vector<Head> heads(size);
  std::vector<std::string> texts(size);
  std::vector<Operation> operations;
  const auto others = [&](const auto& f) {
    for (int rank = 0; rank < place_.size; ++rank)
      if (rank != place_.rank) f(rank);
  };
  others([&](int rank) {
    begin(mpi_.receive, &heads[std::size_t(rank)], sizeof(Head), rank, head_tag, operations);
  });
  others([&](int rank) { begin(mpi_.send, &head, sizeof(Head), rank, head_tag, operations); });
  wait(operations, patience, "to hear from all");
  others([&](int rank) {
    const Head& from = heads[std::size_t(rank)];
    std::string& text = texts[std::size_t(rank)];
    text.resize(std::size_t(from.bytes));
    if (from.whole())
      std::memcpy(text.data(), from.text.data(), text.size());
    else
      begin(mpi_.receive, text.data(), from.bytes, rank, body_tag, operations);
  });
  if (!head.whole())
    others([&](int rank) {
      begin(mpi_.send, mine.data(), std::int64_t(mine.size()), rank, body_tag, operations);
    });
  wait(operations, patience, "for a message's rest");
  texts[std::size_t(place_.rank)] = mine;
  return texts;
}

void MpiGroup::abandon(ExitCode code, std::string_view why) noexcept {
  // MPI_Abort may wait for what is gone.
  std::signal(SIGALRM, SIG_DFL);
  ::alarm(10);
  std::fprintf(stderr, "mxtape: %s: %.*s\n", name_of(place_).c_str(), int(why.size()), why.data());
  std::fflush(nullptr);
  mpi_.abort(int(code));
  ::_exit(int(code));
}

void MpiGroup::start(int place, std::span<const Part> send_parts, std::span<const Part> receive_parts) {
  auto& operations = started_[place];
  require(operations.empty(), "mpi: place {} is under way already", place);
  for (const Part& part : receive_parts)
    begin(mpi_.receive, part.data.raw(), part.data.bytes(), part.rank, first_place_tag + place, operations);
  for (const Part& part : send_parts)
    begin(mpi_.send, part.data.raw(), part.data.bytes(), part.rank, first_place_tag + place, operations);
}

void MpiGroup::progress() {
  for (auto& [place, operations] : started_) test(operations);
}

void MpiGroup::finish(int place) {
  auto operations = started_.extract(place);
  if (operations) wait(operations.mapped(), Patience::step, fmt::format("in exchange {}", place));
}

}  // namespace mxtape
