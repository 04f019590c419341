// The interpreter of one state: what its C files share. See script.go for what it is for.
#ifndef KEDIS_SCRIPT_INTERPRETER_H
#define KEDIS_SCRIPT_INTERPRETER_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// bytes is memory that grows. It counts against the interpreter's limit.
struct bytes {
	char *data;
	size_t length, capacity;
};

// Why a run ended. All but END_DONE and END_ERROR can't be caught by the script.
enum {
	END_DONE,       // output is the reply
	END_ERROR,      // output is the text of the error
	END_TAKEN_BACK, // the host wants it to end: it knows why
	END_LATE,       // its deadline has passed
	END_KILLED,
};

// Whether numbers that JSON doesn't have are encoded.
enum { INVALID_OFF, INVALID_ON, INVALID_NULL };

// What a script can choose about JSON.
struct json_options {
	int encode_depth, decode_depth, precision;
	int sparse_convert, sparse_ratio, sparse_safe;
	int keep_buffer, encode_invalid, decode_invalid;
};

// Small blocks that were given back are kept for the next run of a script, which needs the same ones: up to so many of each class.
enum { BLOCK_STEP = 16, LARGEST_BLOCK = 256, BLOCK_CLASSES = LARGEST_BLOCK / BLOCK_STEP + 1, MOST_SPARE = 64 };

struct interpreter {
	lua_State *lua;
	struct {
		void *first; // its first word is the next one
		int count;
	} spare[BLOCK_CLASSES];
	uintptr_t handle; // the host's name for it
	const char *version; // of Redis; while the state is made
	int number;
	size_t used, limit;
	size_t kept;       // what the last collection has left of used, or less
	_Atomic int kill;  // set by another thread: the run is to end
	int64_t within;    // ns of processor time that the run has; 0: it may take as long as it likes
	int64_t deadline;  // of the run, in its thread's processor time; 0: nobody has looked yet
	int underway;      // somebody catches errors, so it may be ended
	size_t moved;      // how many bytes were allocated and copied since the last poll
	size_t largest;    // of the texts that the run may work on, within a factor of two; below 64 KB none counts
	int ending;        // END_TAKEN_BACK or a later one: the run unwinds
	int protocol;      // 2 or 3: what redis.setresp chose
	int client;        // 2 or 3: what the client speaks
	uint64_t random;   // state of math.random
	uint64_t seed;     // of the next run's
	struct json_options json;
	struct bytes input, output;
	struct bytes registered; // functions of the library that was loaded last: see functions.c
	int loading;             // a library is
	int function_globals;    // references: what functions have as globals, and what that stands for when they run, and while they are loaded
	int running_globals, loading_globals;
	struct snapshot {
		int function; // reference
		int length;   // of the list
		int whole;    // 0: there is more than that, or something of which there is no copy
	} snapshot;       // the last one: see snapshot.c
	int met;           // the error that the run ends with, or replies, is one that a call has met
	int line;          // where the error was raised; 0: unknown
	char source[64];
};

struct interpreter *interpreter_open(uintptr_t handle, size_t limit, const char *version, int number, uint64_t seed);
void interpreter_close(struct interpreter *in);
int interpreter_compile(struct interpreter *in, const char *source, size_t length, int *reference);
int interpreter_load(struct interpreter *in, const char *source, size_t length, int64_t within, int *compiled);
void interpreter_forget(struct interpreter *in, int reference);
int interpreter_run(struct interpreter *in, int function, int registered, size_t literals, const char *words, size_t keys, size_t arguments,
	int client, int64_t within);
int interpreter_snapshot(struct interpreter *in, int function);
int interpreter_restore(struct interpreter *in);
void interpreter_kill(struct interpreter *in);
void interpreter_spare(struct interpreter *in);
int interpreter_reserve(struct interpreter *in, struct bytes *b, size_t more);

struct interpreter *interpreter_of(lua_State *L);

// poll_run ends a run that is to end. Functions that may run for long call it now and then; those that go on in small steps, each so many.
enum { STEPS_PER_POLL = 4096 };
void poll_run(lua_State *L);

// note_bytes notes that bytes are copied, or handed to the host. So many of them, and of those that are allocated, take some hundred
// microseconds.
enum { BYTES_PER_POLL = 1 << 20 };
static inline void note_bytes(lua_State *L, size_t count) {
	struct interpreter *in = interpreter_of(L);
	in->moved += count;
	if (in->moved > BYTES_PER_POLL)
		poll_run(L);
}

// parse_text compiles a text and leaves the function, or an error, on the stack; it returns whether it has failed. Bytecode is read behind a
// space, and so as text: an error of grammar, as in Redis. While a chunk is parsed nothing refers to its name but the parser, so the collector
// rests: CVE-2025-49844.
int parse_text(lua_State *L, const char *text, size_t length, const char *name);

// end_if_ending goes on with unwinding a run that the script has tried to catch.
void end_if_ending(lua_State *L);

// make_room makes room in memory; too much is an error of the script.
void make_room(lua_State *L, struct bytes *b, size_t length);

// add appends to memory.
static inline void add(lua_State *L, struct bytes *b, const void *data, size_t length) {
	if (b->capacity - b->length < length)
		make_room(L, b, length);
	memcpy(b->data + b->length, data, length);
	b->length += length;
}

void add_format(lua_State *L, struct bytes *b, const char *format, ...) __attribute__((format(printf, 3, 4)));

// protect replaces the table on top of the stack by one that can't be written to.
void protect(lua_State *L);
// reveal replaces a protected table on the stack by what it stands for; 0: it isn't one.
int reveal(lua_State *L, int index);
// point_protected makes a protected table, whose metatable is below the top of the stack, stand for the table on top, which is popped.
void point_protected(lua_State *L);
// fail raises an error without a place.
int fail(lua_State *L, const char *text);

// An error that a call has met has this field, as in Redis: the server has counted it.
#define MET_FIELD "ignore_error_stats_update"

// push_reply pushes what a reply in RESP is in Lua; a reply without an end is an error.
void push_reply(lua_State *L, const char *reply, size_t length);
// write_reply appends to output what a value is in RESP.
void write_reply(lua_State *L, struct interpreter *in);

// A source that is compiled.
struct source {
	const char *text;
	size_t length;
	const char *name;
	int reference; // of the function that it becomes
};

// load_library runs the source of a library, and end_loading has to follow, whatever has become of it.
int load_library(lua_State *L);
void end_loading(struct interpreter *in);

// keeps_state tells whether the function on top of the stack keeps something from one run to the next, and pops it.
int keeps_state(lua_State *L);
// take_snapshot and restore_snapshot are called with a struct snapshot.
int take_snapshot(lua_State *L);
int restore_snapshot(lua_State *L);

void open_functions(lua_State *L);
void open_base(lua_State *L);
void open_strings(lua_State *L);
void open_tables(lua_State *L);
void open_random(lua_State *L);
void open_redis(lua_State *L);
void open_bit(lua_State *L);
void open_struct(lua_State *L);
void open_json(lua_State *L);
void open_messagepack(lua_State *L);
void reset_json(struct interpreter *in);
void seed_random(struct interpreter *in);

#endif
