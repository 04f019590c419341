#include "shim.h"

#include <cstdint>  // first: RocksDB's headers need it and, before GCC 13, got it from others

#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/iterator.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/rate_limiter.h>
#include <rocksdb/slice.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/sst_partitioner.h>
#include <rocksdb/statistics.h>
#include <rocksdb/status.h>
#include <rocksdb/version.h>
#include <rocksdb/write_batch.h>

#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;
using rocksdb::Status;

// RocksDB's C API declares these types and keeps their definitions in its c.cc. Each begins with what it stands for;
// only that first member is used here.
struct rocksdb_t {
  rocksdb::DB *rep;
};
struct rocksdb_column_family_handle_t {
  rocksdb::ColumnFamilyHandle *rep;
};
struct rocksdb_options_t {
  rocksdb::Options rep;
};

namespace {

rocksdb::DB *real(rocks_db *db) { return reinterpret_cast<rocksdb::DB *>(db); }
rocksdb::ColumnFamilyHandle *real(rocks_family *family) {
  return reinterpret_cast<rocksdb::ColumnFamilyHandle *>(family);
}
const rocksdb::Snapshot *real(const rocks_snapshot *snapshot) {
  return reinterpret_cast<const rocksdb::Snapshot *>(snapshot);
}

// An empty Go slice has no address; a Slice must have one (its comparison asserts that).
Slice slice(const char *data, size_t length) { return length == 0 ? Slice() : Slice(data, length); }

// Memory that Go releases with free.
char *text(const std::string &from) { return strdup(from.c_str()); }

rocks_status report(const Status &status) {
  if (status.ok()) return {0, 0, nullptr};
  return {static_cast<uint8_t>(status.code()), static_cast<uint8_t>(status.subcode()), text(status.ToString())};
}

rocksdb::ReadOptions reading(const rocks_snapshot *snapshot) {
  rocksdb::ReadOptions options;
  options.snapshot = real(snapshot);
  return options;
}

}  // namespace

// Values that did not fit into the caller's buffer, kept until it comes back with a larger one.
struct rocks_rest {
  std::vector<rocksdb::PinnableSlice> values;
  std::string own;  // a value out of the memtable, which RocksDB copies instead of pinning
};

rocks_db *rocks_db_of(void *c_database) {
  return reinterpret_cast<rocks_db *>(static_cast<rocksdb_t *>(c_database)->rep);
}

rocks_family *rocks_family_of(void *c_family) {
  return reinterpret_cast<rocks_family *>(static_cast<rocksdb_column_family_handle_t *>(c_family)->rep);
}

void rocks_limit_arenas(int arenas) {
#ifdef __GLIBC__
  mallopt(M_ARENA_MAX, arenas);
#else
  static_cast<void>(arenas);
#endif
}

rocks_status rocks_lock_probe(const char *directory) {
  rocksdb::Env *env = rocksdb::Env::Default();
  rocksdb::FileLock *lock = nullptr;
  Status status = env->LockFile(std::string(directory) + "/LOCK", &lock);
  if (status.ok()) status = env->UnlockFile(lock);
  return report(status);
}

// ---- reading ----

rocks_value rocks_get(rocks_db *db, rocks_family *family, const rocks_snapshot *snapshot, uint8_t persisted,
                      const char *key, size_t key_length, char *buffer, size_t capacity) {
  // Kept for each thread, so that a value from the memtable needs no allocation; given back when it grew large.
  constexpr size_t kept = 64 << 10;
  static thread_local std::string copy;

  rocksdb::ReadOptions options = reading(snapshot);
  if (persisted) options.read_tier = rocksdb::kPersistedTier;
  rocksdb::PinnableSlice value(&copy);
  Status status = real(db)->Get(options, real(family), slice(key, key_length), &value);

  rocks_value result = {};
  if (status.ok()) {
    result.found = 1;
    result.length = value.size();
    if (value.size() <= capacity) {
      if (value.size() > 0) memcpy(buffer, value.data(), value.size());
    } else {
      result.rest = new rocks_rest;
      if (value.IsPinned()) {
        result.rest->values.push_back(std::move(value));
      } else {
        result.rest->own = std::move(copy);
        copy = std::string();
      }
    }
  } else if (!status.IsNotFound()) {
    result.status = report(status);
  }
  if (copy.capacity() > kept) std::string().swap(copy);
  return result;
}

// With kBlockCacheTier, Get answers OK and no bytes, too, where it would have to open the table file first (RocksDB 7.8,
// facebook/rocksdb#12443). KeyMayExist tells the two apart, but not an error from a key that isn't there.
static bool surely_empty(rocks_db *db, rocks_family *family, const rocksdb::ReadOptions &options, const Slice &key) {
  std::string value;
  bool known = false;
  return real(db)->KeyMayExist(options, real(family), key, &value, &known) && known;
}

rocks_status rocks_get_cached(rocks_db *db, rocks_family *family, const char *keys, int64_t *lengths, size_t count,
                              char *buffer, size_t capacity) {
  rocksdb::ReadOptions options = reading(nullptr);
  options.read_tier = rocksdb::kBlockCacheTier;
  rocksdb::PinnableSlice value;
  for (size_t i = 0; i < count; i++) {
    // Not MultiGet, which reads files whatever the tier (RocksDB 7.8).
    const size_t key_length = static_cast<size_t>(lengths[i]);
    const Slice key = slice(keys, key_length);
    Status status = real(db)->Get(options, real(family), key, &value);
    keys += key_length;
    if (status.IsNotFound()) {
      lengths[i] = -1;
    } else if (status.IsIncomplete() || (status.ok() && value.empty() && !surely_empty(db, family, options, key))) {
      lengths[i] = -2;
    } else if (!status.ok()) {
      return report(status);
    } else if (value.size() > capacity) {
      lengths[i] = -3;
    } else {
      lengths[i] = static_cast<int64_t>(value.size());
      if (value.size() > 0) memcpy(buffer, value.data(), value.size());
      buffer += value.size();
      capacity -= value.size();
    }
    value.Reset();
  }
  return {};
}

void rocks_rest_take(rocks_rest *rest, char *buffer) {
  for (const auto &value : rest->values) {
    if (value.size() > 0) memcpy(buffer, value.data(), value.size());
    buffer += value.size();
  }
  if (!rest->own.empty()) memcpy(buffer, rest->own.data(), rest->own.size());
  delete rest;
}

rocks_snapshot *rocks_snapshot_create(rocks_db *db) {
  return reinterpret_cast<rocks_snapshot *>(const_cast<rocksdb::Snapshot *>(real(db)->GetSnapshot()));
}

void rocks_snapshot_release(rocks_db *db, const rocks_snapshot *snapshot) { real(db)->ReleaseSnapshot(real(snapshot)); }

uint64_t rocks_snapshot_sequence(const rocks_snapshot *snapshot) { return real(snapshot)->GetSequenceNumber(); }

// ---- walking ----

struct rocks_iterator {
  std::string lower, upper;
  Slice lower_slice, upper_slice;  // RocksDB keeps their addresses
  std::unique_ptr<rocksdb::Iterator> entries;
  bool reverse = false;
  bool keys_only = false;
  bool taken = false;  // the entry under the iterator was handed over already

  void start() {
    taken = false;
    if (reverse) {
      entries->SeekToLast();
    } else {
      entries->SeekToFirst();
    }
  }

  void seek(const Slice &key) {
    taken = false;
    if (reverse) {
      entries->SeekForPrev(key);
    } else {
      entries->Seek(key);
    }
  }

  // Stepping waits until the next entry is wanted: behind the last one of interest may lie a million tombstones.
  void step() {
    if (!taken) return;
    taken = false;
    if (reverse) {
      entries->Prev();
    } else {
      entries->Next();
    }
  }

  rocks_block fill(char *buffer, size_t capacity, uint32_t wanted);
};

rocks_block rocks_iterator::fill(char *buffer, size_t capacity, uint32_t wanted) {
  rocks_block block = {};
  block.iterator = this;
  while (block.entries < wanted) {
    step();
    if (!entries->Valid()) {
      block.status = report(entries->status());
      block.iterator = nullptr;
      delete this;
      return block;
    }
    const Slice key = entries->key();
    const Slice value = keys_only ? Slice() : entries->value();
    const uint32_t lengths[2] = {static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size())};
    const size_t size = sizeof lengths + key.size() + value.size();
    if (size > capacity - block.length) {
      if (block.entries == 0) block.needed = size;
      return block;
    }
    char *to = buffer + block.length;
    memcpy(to, lengths, sizeof lengths);
    memcpy(to + sizeof lengths, key.data(), key.size());
    memcpy(to + sizeof lengths + key.size(), value.data(), value.size());
    block.length += size;
    block.entries++;
    taken = true;
  }
  return block;
}

rocks_block rocks_iterator_open(rocks_db *db, rocks_family *family, const rocks_snapshot *snapshot, uint32_t flags,
                                size_t readahead, const char *lower, size_t lower_length, const char *upper,
                                size_t upper_length, const char *key, size_t key_length, char *buffer,
                                size_t capacity, uint32_t entries) {
  auto iterator = std::make_unique<rocks_iterator>();
  iterator->reverse = (flags & ROCKS_REVERSE) != 0;
  iterator->keys_only = (flags & ROCKS_KEYS_ONLY) != 0;

  rocksdb::ReadOptions options = reading(snapshot);
  options.fill_cache = (flags & ROCKS_NO_FILL_CACHE) == 0;
  options.readahead_size = readahead;
  // With deleted ranges, RocksDB 7.8 puts a sentinel behind each table of a level. When the first
  // block of the next one can't be read, because it is damaged, or isn't in the cache and the walk
  // isn't to wait for it, the sentinel is removed and the error with it (facebook/rocksdb#11782):
  // the walk ends there as if all were well, or goes on without what that level has.
  options.ignore_range_deletions = true;
  if (flags & ROCKS_CACHED) options.read_tier = rocksdb::kBlockCacheTier;
  if (flags & ROCKS_LOWER) {
    iterator->lower.assign(slice(lower, lower_length).data(), lower_length);
    iterator->lower_slice = iterator->lower;
    options.iterate_lower_bound = &iterator->lower_slice;
  }
  if (flags & ROCKS_UPPER) {
    iterator->upper.assign(slice(upper, upper_length).data(), upper_length);
    iterator->upper_slice = iterator->upper;
    options.iterate_upper_bound = &iterator->upper_slice;
  }
  iterator->entries.reset(real(db)->NewIterator(options, real(family)));
  if (flags & ROCKS_SEEK) {
    iterator->seek(slice(key, key_length));
  } else {
    iterator->start();
  }
  return iterator.release()->fill(buffer, capacity, entries);
}

rocks_block rocks_iterator_next(rocks_iterator *iterator, char *buffer, size_t capacity, uint32_t entries) {
  return iterator->fill(buffer, capacity, entries);
}

rocks_block rocks_iterator_seek(rocks_iterator *iterator, const char *key, size_t key_length, char *buffer,
                                size_t capacity, uint32_t entries) {
  iterator->seek(slice(key, key_length));
  return iterator->fill(buffer, capacity, entries);
}

void rocks_iterator_close(rocks_iterator *iterator) { delete iterator; }

// ---- writing ----

rocks_status rocks_write(rocks_db *db, const char *batch, size_t length, uint8_t may_stall) {
  rocksdb::WriteOptions options;
  options.no_slowdown = may_stall == 0;
  options.disableWAL = true;
  rocksdb::WriteBatch updates(std::string(batch, length));
  return report(real(db)->Write(options, &updates));
}

struct rocks_table {
  rocks_table(const rocksdb::EnvOptions &environment, const rocksdb::Options &options)
      : writer(environment, options, nullptr, /*invalidate_page_cache=*/false, rocksdb::Env::IO_HIGH) {}

  rocksdb::SstFileWriter writer;
};

rocks_status rocks_table_open(rocks_db *db, rocks_family *family, const char *path, uint8_t bottommost,
                              rocks_table **table) {
  rocksdb::Options options = real(db)->GetOptions(real(family));
  if (!bottommost) options.bottommost_compression = rocksdb::kDisableCompressionOption;
  options.env = rocksdb::Env::Default();  // on a full disk it fails, as its caller can: see PatientFiles
  *table = new rocks_table(rocksdb::EnvOptions(options), options);
  return report((*table)->writer.Open(path));
}

rocks_status rocks_table_add(rocks_table *table, const char *records, size_t length, uint64_t *size) {
  const char *const end = records + length;
  Status status;
  while (records < end && status.ok()) {
    uint32_t lengths[2];
    const char kind = *records;
    memcpy(lengths, records + 1, sizeof lengths);  // as the machine has it: little endian
    records += 1 + sizeof lengths;
    const Slice key = slice(records, lengths[0]), value = slice(records + lengths[0], lengths[1]);
    records += static_cast<size_t>(lengths[0]) + lengths[1];
    switch (kind) {
      case ROCKS_TABLE_PUT:
        status = table->writer.Put(key, value);
        break;
      case ROCKS_TABLE_DELETE:
        status = table->writer.Delete(key);
        break;
      default:
        status = table->writer.DeleteRange(key, value);
    }
  }
  *size = table->writer.FileSize();
  return report(status);
}

rocks_status rocks_table_put(rocks_table *table, const char *key, size_t key_length, const char *value, size_t value_length, uint64_t *size) {
  Status status = table->writer.Put(slice(key, key_length), slice(value, value_length));
  *size = table->writer.FileSize();
  return report(status);
}

rocks_status rocks_table_finish(rocks_table *table, uint64_t *size) {
  rocksdb::ExternalSstFileInfo file;
  Status status = table->writer.Finish(&file);
  *size = file.file_size;
  delete table;
  return report(status);
}

void rocks_table_discard(rocks_table *table) { delete table; }

rocks_status rocks_ingest(rocks_db *db, rocks_family **families, char **paths, size_t count) {
  std::vector<rocksdb::IngestExternalFileArg> files;
  for (size_t i = 0; i < count; i++) {
    if (i == 0 || families[i] != families[i - 1]) {
      files.emplace_back();
      files.back().column_family = real(families[i]);
      files.back().options.move_files = true;
      files.back().options.write_global_seqno = false;
      files.back().options.allow_blocking_flush = false;
    }
    files.back().external_files.push_back(paths[i]);
  }
  return report(real(db)->IngestExternalFiles(files));
}

rocks_status rocks_flush(rocks_db *db, rocks_family **families, size_t count) {
  std::vector<rocksdb::ColumnFamilyHandle *> handles(count);
  for (size_t i = 0; i < count; i++) handles[i] = real(families[i]);
  rocksdb::FlushOptions options;
  options.allow_write_stall = true;
  return report(real(db)->Flush(options, handles));
}

uint64_t rocks_memtable_bytes(rocks_db *db) {
  uint64_t bytes = 0;
  real(db)->GetAggregatedIntProperty(rocksdb::DB::Properties::kCurSizeAllMemTables, &bytes);
  return bytes;
}

// The C API's version of this keeps the status to itself.
rocks_status rocks_compact(rocks_db *db, rocks_family *family, const char *from, size_t from_length, const char *to,
                           size_t to_length) {
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  const Slice begin = slice(from, from_length), end = slice(to, to_length);
  const Status status = real(db)->CompactRange(options, real(family), from_length > 0 ? &begin : nullptr,
                                               to_length > 0 ? &end : nullptr);
  if (status.IsColumnFamilyDropped()) return report(Status::NoSpace("the compaction was given up"));  // Room::giveUp
  return report(status);
}

rocks_status rocks_delete_files(rocks_db *db, rocks_family *family, const char *from, size_t from_length, const char *to,
                                size_t to_length) {
  const Slice begin = slice(from, from_length), end = slice(to, to_length);
  return report(rocksdb::DeleteFilesInRange(real(db), real(family), &begin, &end, false));
}

rocks_collected rocks_family_collected(rocks_db *db, rocks_family *family) {
  rocksdb::ColumnFamilyMetaData metadata;
  real(db)->GetColumnFamilyMetaData(real(family), &metadata);
  rocks_collected collected = {};
  for (const rocksdb::LevelMetaData &level : metadata.levels) {
    if (level.level == 0) {
      collected.tables = level.files.size();
      collected.bytes = level.size;
    } else if (collected.below == 0) {
      collected.below = level.size;
    }
  }
  return collected;
}

// ---- options and counters ----

rocks_status rocks_set_options(rocks_db *db, const char *options, size_t length) {
  std::unordered_map<std::string, std::string> map;
  Status status = rocksdb::StringToMap(std::string(options, length), &map);
  if (status.ok()) status = real(db)->SetDBOptions(map);
  return report(status);
}

void rocks_set_rate(rocks_db *db, int64_t bytes_per_second) {
  real(db)->GetDBOptions().rate_limiter->SetBytesPerSecond(bytes_per_second);
}

void rocks_tickers(rocks_db *db, uint64_t *counts) {
  static const rocksdb::Tickers tickers[ROCKS_TICKERS] = {
      rocksdb::BLOCK_CACHE_HIT,      rocksdb::BLOCK_CACHE_MISS,     rocksdb::BLOCK_CACHE_DATA_HIT,
      rocksdb::BLOCK_CACHE_DATA_MISS, rocksdb::BLOOM_FILTER_USEFUL, rocksdb::BLOOM_FILTER_FULL_POSITIVE,
      rocksdb::MEMTABLE_HIT,         rocksdb::MEMTABLE_MISS,        rocksdb::NUMBER_KEYS_READ,
      rocksdb::NUMBER_KEYS_WRITTEN,  rocksdb::BYTES_READ,           rocksdb::BYTES_WRITTEN,
      rocksdb::FLUSH_WRITE_BYTES,    rocksdb::COMPACT_READ_BYTES,   rocksdb::COMPACT_WRITE_BYTES,
      rocksdb::STALL_MICROS,
  };
  const auto statistics = real(db)->GetDBOptions().statistics;
  for (size_t i = 0; i < ROCKS_TICKERS; i++) counts[i] = statistics->getTickerCount(tickers[i]);
}

char *rocks_version(void) { return text(rocksdb::GetRocksVersionAsString()); }

// ---- events ----

namespace {

// What the listener writes and the reader takes. Both sides hold it, since RocksDB may outlive the reader.
struct Queue {
  static constexpr size_t most = 256;

  std::mutex mutex;
  std::condition_variable filled;
  std::deque<rocks_event> events;
  uint64_t lost = 0;
  bool ended = false;
  Status failure;  // that RocksDB has yet to recover from

  ~Queue() {
    for (auto &event : events) free(event.text);
  }

  void fail(const Status &status) {
    std::lock_guard<std::mutex> lock(mutex);
    failure = status;
  }

  void put(rocks_event event) {
    std::lock_guard<std::mutex> lock(mutex);
    if (ended || events.size() == most) {
      lost++;
      free(event.text);
      return;
    }
    event.lost = lost;
    lost = 0;
    events.push_back(event);
    filled.notify_one();
  }
};

// Room is what RocksDB's writes do on a full disk. RocksDB 7.8 doesn't survive an atomic flush whose entry in the manifest can't be
// written: it takes the flush back twice (DBImpl::AtomicFlushMemTablesToOutputFiles, after
// InstallMemtableAtomicFlushResults has done so), which an assertion aborts, and without assertions the count of memtables to be
// flushed is wrong from then on, and who waits for a flush waits without end. Nor does it survive a failure during DB::Resume
// (facebook/rocksdb#11872). So it never learns of a full disk:
//  - A flush, and whatever writes the manifest, waits until there is room, and then writes the same bytes to the same place.
//  - A compaction is given up, so that nobody waits for it, and what it has written is deleted: RocksDB would leave it until its next
//    start, and a flush may wait for that room. DB.recover has it begin again. It leaves ROCKS_COMPACTION_LEAVES bytes on the
//    disk, for flushes.
// While the database is being opened or closed, failures are failures.
class Room {
 public:
  explicit Room(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) {}

  // Whether this thread runs a compaction, or a part of one.
  bool compacting() const { return running.room == number_; }
  void begin(int job) { running = {number_, job}; }
  void end() { running = {}; }

  // Notes a file that this thread has made.
  void made(const std::string &path) {
    if (!compacting()) return;
    std::lock_guard<std::mutex> lock(mutex_);
    written_[running.job].push_back(path);
  }

  // Ends a compaction with all its parts. When one was given up, or the family dropped, no file of any is the database's.
  void complete(int job, const Status &status) {
    std::vector<std::string> paths;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      paths.swap(written_[job]);
      written_.erase(job);
    }
    if (!status.IsColumnFamilyDropped()) return;
    for (const std::string &path : paths) unlink(path.c_str());
  }

  std::atomic<bool> patient{false};
  std::atomic<uint32_t> waiting{0};
  std::atomic<uint64_t> given_up{0};  // compactions

  // Does what may be repeated when it has failed for lack of room.
  template <typename Attempt>
  IOStatus attempt(Attempt attempt) {
    IOStatus status = attempt();
    if (!patient || !full(status)) return status;
    if (compacting()) return giveUp();
    if (waiting++ == 0) queue_->put({ROCKS_EVENT_FULL, 0, 0, 0, text(status.ToString())});
    do {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      status = attempt();
    } while (patient && full(status));
    if (--waiting == 0) queue_->put({ROCKS_EVENT_ROOM, 0, 0, 0, text("")});
    return status;
  }

  // For what may not be repeated: after a failed sync, another one would succeed without having written what the first has not.
  IOStatus once(IOStatus status) { return patient && compacting() && full(status) ? giveUp() : status; }

  // Ends a compaction in the one way that RocksDB takes for no error. It doesn't begin again by itself.
  IOStatus giveUp() {
    given_up++;
    return rocksdb::status_to_io_status(Status::ColumnFamilyDropped("there is no room on the disk"));
  }

  // Reports whether there is room for what a compaction wants to write.
  bool leavesEnough(rocksdb::FileSystem *files, const std::string &directory, size_t bytes) {
    uint64_t free = 0;
    const IOStatus status = files->GetFreeSpace(directory, IOOptions(), &free, nullptr);
    return !patient || !status.ok() || free >= bytes + ROCKS_COMPACTION_LEAVES;
  }

 private:
  static bool full(const IOStatus &status) {
    return status.IsNoSpace() || (status.IsIOError() && status.ToString().find(strerror(EDQUOT)) != std::string::npos);
  }

  // RocksDB doesn't tell of a compaction's end when the database is being closed, and its threads go on with other databases.
  struct Running {
    uint64_t room = 0;
    int job = 0;
  };
  static thread_local Running running;
  static std::atomic<uint64_t> rooms;

  std::shared_ptr<Queue> queue_;
  const uint64_t number_ = ++rooms;
  std::mutex mutex_;
  std::unordered_map<int, std::vector<std::string>> written_;  // the files of each compaction that is under way
};

thread_local Room::Running Room::running;
std::atomic<uint64_t> Room::rooms{0};

// A file of the database. What is appended is written at its offset, so that it can be written once more.
class PatientFile : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  PatientFile(std::unique_ptr<rocksdb::FSWritableFile> &&file, uint64_t end, std::shared_ptr<rocksdb::FileSystem> files,
              std::string directory, std::shared_ptr<Room> room)
      : FSWritableFileOwnerWrapper(std::move(file)), end_(end), files_(std::move(files)), directory_(std::move(directory)),
        room_(std::move(room)) {}

  IOStatus Append(const Slice &data, const IOOptions &options, IODebugContext *debug) override {
    if (room_->compacting() && !room_->leavesEnough(files_.get(), directory_, data.size())) return room_->giveUp();
    IOStatus status = room_->attempt([&] { return target()->PositionedAppend(data, end_, options, debug); });
    if (status.ok()) end_ += data.size();
    return status;
  }
  IOStatus Append(const Slice &data, const IOOptions &options, const rocksdb::DataVerificationInfo &,
                  IODebugContext *debug) override {
    return Append(data, options, debug);
  }
  IOStatus Truncate(uint64_t size, const IOOptions &options, IODebugContext *debug) override {
    IOStatus status = target()->Truncate(size, options, debug);
    if (status.ok()) end_ = size;
    return status;
  }
  IOStatus Sync(const IOOptions &options, IODebugContext *debug) override {
    return room_->once(target()->Sync(options, debug));
  }
  IOStatus Fsync(const IOOptions &options, IODebugContext *debug) override {
    return room_->once(target()->Fsync(options, debug));
  }
  IOStatus Close(const IOOptions &options, IODebugContext *debug) override {
    return room_->once(target()->Close(options, debug));
  }

 private:
  uint64_t end_;
  std::shared_ptr<rocksdb::FileSystem> files_;
  std::string directory_;
  std::shared_ptr<Room> room_;
};

// The file system as the database sees it. Files elsewhere, such as those of a checkpoint, and copies of the options, which
// RocksDB can do without, fail as they do.
class PatientFiles : public rocksdb::FileSystemWrapper {
 public:
  PatientFiles(std::string directory, std::shared_ptr<Room> room)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), directory_(std::move(directory)), room_(std::move(room)) {}

  const char *Name() const override { return "PatientFiles"; }

  IOStatus NewWritableFile(const std::string &path, const rocksdb::FileOptions &options,
                           std::unique_ptr<rocksdb::FSWritableFile> *file, IODebugContext *debug) override {
    if (!ours(path)) return target()->NewWritableFile(path, options, file, debug);
    std::unique_ptr<rocksdb::FSWritableFile> made;
    IOStatus status = room_->attempt([&] { return target()->NewWritableFile(path, options, &made, debug); });
    if (!status.ok()) return status;
    room_->made(path);
    file->reset(new PatientFile(std::move(made), 0, target_, directory_, room_));
    return status;
  }
  // Nobody else may read a database, nor a checkpoint of one.
  IOStatus CreateDir(const std::string &path, const IOOptions &options, IODebugContext *debug) override {
    return mkdir(path.c_str(), 0700) == 0 ? IOStatus::OK() : target()->CreateDir(path, options, debug);
  }
  IOStatus RenameFile(const std::string &from, const std::string &to, const IOOptions &options,
                      IODebugContext *debug) override {
    if (!ours(to)) return target()->RenameFile(from, to, options, debug);
    return room_->attempt([&] { return target()->RenameFile(from, to, options, debug); });
  }
  IOStatus LinkFile(const std::string &from, const std::string &to, const IOOptions &options,
                    IODebugContext *debug) override {
    if (!ours(to)) return target()->LinkFile(from, to, options, debug);
    return room_->attempt([&] { return target()->LinkFile(from, to, options, debug); });
  }

 private:
  bool ours(const std::string &path) const {
    const size_t slash = path.rfind('/');
    return slash != std::string::npos && path.compare(0, slash, directory_) == 0 &&
           path.compare(slash + 1, strlen("OPTIONS"), "OPTIONS") != 0;
  }

  std::string directory_;
  std::shared_ptr<Room> room_;
};

class Listener : public rocksdb::EventListener {
 public:
  Listener(std::shared_ptr<Queue> queue, std::shared_ptr<Room> room) : queue_(std::move(queue)), room_(std::move(room)) {}

  void OnSubcompactionBegin(const rocksdb::SubcompactionJobInfo &part) override { room_->begin(part.job_id); }
  void OnSubcompactionCompleted(const rocksdb::SubcompactionJobInfo &) override { room_->end(); }
  void OnCompactionCompleted(rocksdb::DB *, const rocksdb::CompactionJobInfo &compaction) override {
    room_->complete(compaction.job_id, compaction.status);
  }

  // Of a full disk it can only be a failed sync by now: it is as hard an error as any other.
  void OnBackgroundError(rocksdb::BackgroundErrorReason, Status *error) override {
    if (error->IsNoSpace() && error->severity() < Status::kHardError) *error = Status(*error, Status::kHardError);
    queue_->fail(*error);
    queue_->put({ROCKS_EVENT_ERROR, 0, 0, 0, text(error->ToString())});
  }

  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, Status error, bool *automatic) override {
    if (error.IsNoSpace()) *automatic = false;
  }

  void OnErrorRecoveryCompleted(Status error) override {
    queue_->fail(Status::OK());
    queue_->put({ROCKS_EVENT_RECOVERED, 0, 0, 0, text(error.ToString())});
  }

  void OnStallConditionsChanged(const rocksdb::WriteStallInfo &info) override {
    queue_->put({ROCKS_EVENT_STALL, 0, static_cast<int>(info.condition.prev), static_cast<int>(info.condition.cur),
                 text(info.cf_name)});
  }

 private:
  std::shared_ptr<Queue> queue_;
  std::shared_ptr<Room> room_;
};

// Takes the lines of RocksDB's own diary. The one that RocksDB writes by itself, to files named LOG, asserts after a
// write to it failed, and Debian's library has its assertions on: on a full disk that would end the process.
class Diary : public rocksdb::Logger {
 public:
  Diary(rocksdb::InfoLogLevel level, std::shared_ptr<Queue> queue) : Logger(level), queue_(std::move(queue)) {}

  using Logger::Logv;
  void Logv(const char *format, va_list arguments) override {
    char line[1024];  // longer ones are cut
    vsnprintf(line, sizeof line, format, arguments);
    queue_->put({ROCKS_EVENT_LINE, 0, 0, 0, strdup(line)});
  }

  // All options, at each start.
  void LogHeader(const char *, va_list) override {}

 private:
  std::shared_ptr<Queue> queue_;
};

}  // namespace

struct rocks_events {
  std::shared_ptr<Queue> queue = std::make_shared<Queue>();
  std::shared_ptr<Room> room = std::make_shared<Room>(queue);
  std::unique_ptr<rocksdb::Env> environment;
};

void rocks_options_complete(void *c_options, const char *directory, rocks_events *events) {
  events->environment = rocksdb::NewCompositeEnv(std::make_shared<PatientFiles>(directory, events->room));
  rocksdb::Options &options = static_cast<rocksdb_options_t *>(c_options)->rep;
  // Close flushes all families itself and reports how that went; the destructor could do neither.
  options.avoid_flush_during_shutdown = true;
  // A reader that closes the last iterator on a file leaves its deletion to a background thread.
  options.avoid_unnecessary_blocking_io = true;
  options.statistics->set_stats_level(rocksdb::StatsLevel::kExceptHistogramOrTimers);
  options.env = events->environment.get();
  options.listeners.push_back(std::make_shared<Listener>(events->queue, events->room));
  options.info_log = std::make_shared<Diary>(options.info_log_level, events->queue);
  // No file spans two kinds of records, which differ in their first byte, or tables could never be put between those of another kind.
  options.sst_partitioner_factory = rocksdb::NewSstPartitionerFixedPrefixFactory(1);
}

rocks_events *rocks_events_create(void) { return new rocks_events; }

rocks_status rocks_events_failure(rocks_events *events) {
  std::lock_guard<std::mutex> lock(events->queue->mutex);
  return report(events->queue->failure);
}

void rocks_room_await(rocks_events *events, uint8_t patient) { events->room->patient = patient != 0; }

rocks_room rocks_room_state(rocks_events *events) {
  return {events->room->waiting.load(), events->room->given_up.load()};
}

rocks_event rocks_events_next(rocks_events *events) {
  Queue &queue = *events->queue;
  std::unique_lock<std::mutex> lock(queue.mutex);
  queue.filled.wait(lock, [&] { return queue.ended || !queue.events.empty(); });
  if (queue.events.empty()) return {ROCKS_EVENT_END, queue.lost, 0, 0, nullptr};
  rocks_event event = queue.events.front();
  queue.events.pop_front();
  return event;
}

void rocks_events_end(rocks_events *events) {
  std::lock_guard<std::mutex> lock(events->queue->mutex);
  events->queue->ended = true;
  events->queue->filled.notify_all();
}

void rocks_events_destroy(rocks_events *events) { delete events; }
