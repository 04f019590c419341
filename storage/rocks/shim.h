// The C side of package rocks: what RocksDB's C API can't do, or does with more crossings than one.
//
// No function here keeps a pointer that it was given to Go memory, and none calls back into Go.
// Whatever a result owns in C (a message, a rest, an iterator) is NULL when there is nothing to free.
#ifndef KEDIS_STORAGE_ROCKS_SHIM_H
#define KEDIS_STORAGE_ROCKS_SHIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rocks_db rocks_db;              // a rocksdb::DB
typedef struct rocks_family rocks_family;      // a rocksdb::ColumnFamilyHandle
typedef struct rocks_snapshot rocks_snapshot;  // a const rocksdb::Snapshot
typedef struct rocks_iterator rocks_iterator;
typedef struct rocks_rest rocks_rest;
typedef struct rocks_events rocks_events;

// A rocksdb::Status. The message belongs to the caller, who frees it; it is NULL when code is 0.
typedef struct {
  uint8_t code;
  uint8_t subcode;
  char *message;
} rocks_status;

// What stands behind the handles of RocksDB's C API (rocksdb_t and so on), which keeps it to itself.
rocks_db *rocks_db_of(void *c_database);
rocks_family *rocks_family_of(void *c_family);

// Sets on a rocksdb_options_t what the C API has no setter for, and makes the listener's events flow.
// From then on the database is to be opened in directory alone, and events have to outlive it.
void rocks_options_complete(void *c_options, const char *directory, rocks_events *events);

// Keeps glibc's malloc to so many arenas. By itself it makes eight for each processor, and since blocks of the cache are
// freed by other threads than those that allocated them, each arena ends up with holes that no other one can use.
void rocks_limit_arenas(int arenas);

// Ok when nobody holds the directory's lock; the lock is not kept.
rocks_status rocks_lock_probe(const char *directory);

// A value that was read. With rest set, it did not fit: length tells its size, rocks_rest_take hands it over.
typedef struct {
  rocks_status status;
  uint8_t found;
  size_t length;
  rocks_rest *rest;
} rocks_value;

rocks_value rocks_get(rocks_db *db, rocks_family *family, const rocks_snapshot *snapshot, uint8_t persisted,
                      const char *key, size_t key_length, char *buffer, size_t capacity);

// Many keys, one after the other in keys, read without touching a file. lengths holds a length for each key when called,
// and afterwards a length for each value, -1 where there is none, -2 where a file would have to be read, or -3 where what
// is left of buffer is too small. The values stand in buffer one after the other.
rocks_status rocks_get_cached(rocks_db *db, rocks_family *family, const char *keys, int64_t *lengths, size_t count,
                              char *buffer, size_t capacity);

// Copies what did not fit to buffer, which has room for it, and frees the rest.
void rocks_rest_take(rocks_rest *rest, char *buffer);

// Applies a write batch in RocksDB's own format, without its log. Where RocksDB would have it wait, the status is Incomplete and
// nothing is applied, unless may_stall is set.
rocks_status rocks_write(rocks_db *db, const char *batch, size_t length, uint8_t may_stall);

typedef struct rocks_table rocks_table;  // a rocksdb::SstFileWriter

enum { ROCKS_TABLE_PUT = 0, ROCKS_TABLE_DELETE = 1, ROCKS_TABLE_DELETE_RANGE = 2 };

// Begins a table file in the format of a family. It belongs to the caller, until rocks_table_finish or rocks_table_discard.
rocks_status rocks_table_open(rocks_db *db, rocks_family *family, const char *path, uint8_t bottommost, rocks_table **table);
// Adds records, each: kind (1) | key length (4) | value length (4) | key | value, little endian. size is that of the file so far.
rocks_status rocks_table_add(rocks_table *table, const char *records, size_t length, uint64_t *size);
// Adds one record whose value is too large to be copied into a block of records.
rocks_status rocks_table_put(rocks_table *table, const char *key, size_t key_length, const char *value, size_t value_length, uint64_t *size);
// Completes the file and makes it durable. The table is gone, whatever the status; size is the file's.
rocks_status rocks_table_finish(rocks_table *table, uint64_t *size);
// Ends writing. The file stays where it is.
void rocks_table_discard(rocks_table *table);
// Moves each file into its family, all as one atomic step; those of a family stand behind each other. No memtable may hold anything.
rocks_status rocks_ingest(rocks_db *db, rocks_family **families, char **paths, size_t count);

rocks_snapshot *rocks_snapshot_create(rocks_db *db);
void rocks_snapshot_release(rocks_db *db, const rocks_snapshot *snapshot);
uint64_t rocks_snapshot_sequence(const rocks_snapshot *snapshot);

enum {
  ROCKS_REVERSE = 1,
  ROCKS_KEYS_ONLY = 2,
  ROCKS_NO_FILL_CACHE = 4,
  ROCKS_LOWER = 8,   // there is a lower bound
  ROCKS_UPPER = 16,  // there is an upper bound
  ROCKS_SEEK = 32,
  ROCKS_CACHED = 64,  // the walk ends with kIncomplete where a block is in a file only
};

// A block of entries, each: key length (4) | value length (4) | key | value, in the machine's byte order.
// iterator is NULL once nothing follows (or after an error); needed is not 0 when not even the first entry fits.
typedef struct {
  rocks_status status;
  rocks_iterator *iterator;
  uint32_t entries;
  size_t length;
  size_t needed;
} rocks_block;

// Opens an iterator and fills a first block: from the start of its range (in reverse, from its end), or, with ROCKS_SEEK,
// from the first entry at or after key (in reverse: the last at or before it).
rocks_block rocks_iterator_open(rocks_db *db, rocks_family *family, const rocks_snapshot *snapshot, uint32_t flags,
                                size_t readahead, const char *lower, size_t lower_length, const char *upper,
                                size_t upper_length, const char *key, size_t key_length, char *buffer,
                                size_t capacity, uint32_t entries);
// Fills on from where the last block ended.
rocks_block rocks_iterator_next(rocks_iterator *iterator, char *buffer, size_t capacity, uint32_t entries);
// Moves to key, as ROCKS_SEEK does, and fills.
rocks_block rocks_iterator_seek(rocks_iterator *iterator, const char *key, size_t key_length, char *buffer,
                                size_t capacity, uint32_t entries);
void rocks_iterator_close(rocks_iterator *iterator);

// Flushes the families as one atomic step and waits, be it for room on the disk. It doesn't wait for compactions to catch up, since
// those may have been given up.
rocks_status rocks_flush(rocks_db *db, rocks_family **families, size_t count);

// The bytes that all memtables of all families take, sealed ones too.
uint64_t rocks_memtable_bytes(rocks_db *db);

// Compacts a range of a family and waits; an empty bound is none.
rocks_status rocks_compact(rocks_db *db, rocks_family *family, const char *from, size_t from_length, const char *to,
                           size_t to_length);

// Deletes the tables of a family, but for those of the first level, that have only keys from from up to and without to.
rocks_status rocks_delete_files(rocks_db *db, rocks_family *family, const char *from, size_t from_length, const char *to,
                                size_t to_length);

// What has collected on level 0 of a family, and the bytes of the level that it would be compacted into.
typedef struct {
  uint64_t tables, bytes, below;
} rocks_collected;
rocks_collected rocks_family_collected(rocks_db *db, rocks_family *family);

// Changes options of the database, given as "name=value;name=value".
rocks_status rocks_set_options(rocks_db *db, const char *options, size_t length);
void rocks_set_rate(rocks_db *db, int64_t bytes_per_second);

enum { ROCKS_TICKERS = 16 };
// Fills in the counters, in the order of type Statistics.
void rocks_tickers(rocks_db *db, uint64_t *counts);

// The library's version, such as 7.8.3, which belongs to the caller.
char *rocks_version(void);

// What RocksDB tells of its background work, queued until someone asks.
enum { ROCKS_EVENT_END = 0, ROCKS_EVENT_ERROR = 1, ROCKS_EVENT_RECOVERED = 2, ROCKS_EVENT_STALL = 3, ROCKS_EVENT_LINE = 4,
       ROCKS_EVENT_FULL = 5, ROCKS_EVENT_ROOM = 6 };
typedef struct {
  int kind;
  uint64_t lost;   // events that did not fit into the queue before this one
  int from, to;    // of a stall: 0 none, 1 delayed, 2 stopped
  char *text;      // the family, the error, or the line; belongs to the caller
} rocks_event;

rocks_events *rocks_events_create(void);
// Why RocksDB takes no writes until it has recovered by itself; OK when it does take them.
rocks_status rocks_events_failure(rocks_events *events);
// Whether the database's writes wait on a full disk, or fail, as they do at first.
void rocks_room_await(rocks_events *events, uint8_t patient);
enum { ROCKS_COMPACTION_LEAVES = 8 << 20 };  // bytes of the disk that compactions leave free
typedef struct {
  uint32_t waiting;   // writes that wait for room on the disk
  uint64_t given_up;  // compactions that there was no room for, since the database was opened
} rocks_room;
rocks_room rocks_room_state(rocks_events *events);
// Waits for an event; kind is ROCKS_EVENT_END once the queue was ended.
rocks_event rocks_events_next(rocks_events *events);
void rocks_events_end(rocks_events *events);
void rocks_events_destroy(rocks_events *events);

#ifdef __cplusplus
}
#endif

#endif
