#include "interpreter.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// So many instructions of the virtual machine take some tens of microseconds, unless they work on something large.
enum { INSTRUCTIONS_PER_POLL = 10000, LEAST_PER_POLL = 32, LARGE = 64 << 10, WORK_PER_POLL = 64 << 20 };

// Where things stand on the stack of a state between two runs.
enum { HANDLER = 1, RUNNER, COMPILER, LOADER, TAKER, RESTORER };

// class_of is the class of a small block: blocks of a class have the same size.
static size_t class_of(size_t size) { return (size + BLOCK_STEP - 1) / BLOCK_STEP; }

static void give_block(struct interpreter *in, void *block, size_t size) {
	size_t class = class_of(size);
	if (size > LARGEST_BLOCK || in->spare[class].count == MOST_SPARE) {
		free(block);
		return;
	}
	*(void **)block = in->spare[class].first;
	in->spare[class].first = block;
	in->spare[class].count++;
}

static void *take_block(struct interpreter *in, size_t size) {
	if (size > LARGEST_BLOCK)
		return malloc(size);
	size_t class = class_of(size);
	void *block = in->spare[class].first;
	if (block == NULL)
		return malloc(class * BLOCK_STEP);
	in->spare[class].first = *(void **)block;
	in->spare[class].count--;
	return block;
}

static void *resize(struct interpreter *in, void *block, size_t before, size_t after) {
	if (before > LARGEST_BLOCK && after > LARGEST_BLOCK)
		return realloc(block, after);
	if (before <= LARGEST_BLOCK && after <= LARGEST_BLOCK && class_of(before) == class_of(after))
		return block;
	void *moved = take_block(in, after);
	if (moved == NULL)
		return NULL;
	memcpy(moved, block, before < after ? before : after);
	give_block(in, block, before);
	return moved;
}

// The interpreter is its own allocator's argument, so that every thread of the state finds it.
struct interpreter *interpreter_of(lua_State *L) {
	void *user;
	lua_getallocf(L, &user);
	return user;
}

// late looks at the thread's processor time: on a busy machine a run mustn't be late for what others do. That takes a system call, so the time
// counts from the first look on.
static int late(struct interpreter *in) {
	struct timespec used;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	int64_t now = (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
	if (in->deadline == 0)
		in->deadline = now + in->within;
	return now > in->deadline;
}

// is_to_end looks whether the run is to end, and notes why.
static int is_to_end(struct interpreter *in) {
	in->moved = 0;
	if (in->ending)
		return 1;
	if (atomic_load_explicit(&in->kill, memory_order_relaxed))
		in->ending = END_KILLED;
	else if (in->within != 0 && late(in))
		in->ending = END_LATE;
	return in->ending;
}

// note_line notes where the run is, which stands so many levels up, or at the next one, on the stack.
static void note_line(lua_State *L, int level) {
	struct interpreter *in = interpreter_of(L);
	lua_Debug record;
	in->line = 0;
	for (int last = level + 1; level <= last && lua_getstack(L, level, &record); level++) {
		lua_getinfo(L, "Sl", &record);
		in->line = record.currentline;
		snprintf(in->source, sizeof in->source, "%s", record.source);
		if (strcmp(record.what, "C") != 0)
			break;
	}
}

// ends_here polls a run that takes memory: one instruction may take much, and functions of Lua's library don't poll. Memory that isn't given
// is an error, which unwinds the run to where somebody catches it, and there it is ended.
static int ends_here(struct interpreter *in) {
	if (in->moved <= BYTES_PER_POLL || !in->underway || in->ending || !is_to_end(in))
		return 0;
	note_line(in->lua, 0);
	return 1;
}

static void on_count(lua_State *L, lua_Debug *record);

// count_instructions has a thread polled each so many instructions: fewer where each may compare, search or make anew what is as large as the
// largest text. That takes no memory when the result is a text that there is already.
static void count_instructions(lua_State *L) {
	size_t largest = interpreter_of(L)->largest;
	int count = INSTRUCTIONS_PER_POLL;
	if (largest > LARGE)
		count = largest < WORK_PER_POLL / LEAST_PER_POLL ? (int)(WORK_PER_POLL / largest) : LEAST_PER_POLL;
	if (lua_gethookcount(L) != count)
		lua_sethook(L, on_count, LUA_MASKCOUNT, count);
}

// note_size notes how large a text is. Threads other than the first one are counted otherwise from their next poll on.
static void note_size(struct interpreter *in, size_t size) {
	if (size <= LARGE || size / 2 <= in->largest)
		return;
	in->largest = size;
	if (in->underway && !in->ending)
		count_instructions(in->lua);
}

static void *allocate(void *user, void *block, size_t before, size_t after) {
	struct interpreter *in = user;
	if (after == 0) {
		if (block != NULL)
			give_block(in, block, before);
		in->used -= before;
		return NULL;
	}
	if (after > before) {
		in->moved += after - before;
		if (in->used + (after - before) > in->limit || ends_here(in))
			return NULL;
		if (block == NULL) // a text; the elements of a table, with which instructions work one by one, grow
			note_size(in, after);
	}
	void *moved = block == NULL ? take_block(in, after) : resize(in, block, before, after);
	if (moved != NULL)
		in->used += after - before;
	return moved;
}

static void free_spare(struct interpreter *in) {
	for (size_t class = 0; class < BLOCK_CLASSES; class++)
		for (void *block = in->spare[class].first, *next; block != NULL; block = next) {
			next = *(void **)block;
			free(block);
		}
}

int interpreter_reserve(struct interpreter *in, struct bytes *b, size_t more) {
	if (b->capacity - b->length >= more)
		return 1;
	size_t wanted = b->capacity < 512 ? 512 : b->capacity * 2;
	if (wanted < b->length + more)
		wanted = b->length + more;
	char *moved = allocate(in, b->data, b->capacity, wanted);
	if (moved == NULL)
		return 0;
	b->data = moved;
	b->capacity = wanted;
	return 1;
}

// reserve_beyond makes room for little, beyond the limit if need be.
static int reserve_beyond(struct interpreter *in, struct bytes *b, size_t more) {
	size_t limit = in->limit;
	in->limit = SIZE_MAX;
	int reserved = interpreter_reserve(in, b, more);
	in->limit = limit;
	return reserved;
}

static void release(struct interpreter *in, struct bytes *b) {
	allocate(in, b->data, b->capacity, 0);
	memset(b, 0, sizeof *b);
}

void make_room(lua_State *L, struct bytes *b, size_t length) {
	if (!interpreter_reserve(interpreter_of(L), b, length))
		luaL_error(L, "not enough memory");
}

void add_format(lua_State *L, struct bytes *b, const char *format, ...) {
	char text[512];
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	add(L, b, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

int fail(lua_State *L, const char *text) {
	lua_pushstring(L, text);
	return lua_error(L);
}

static void on_count(lua_State *L, lua_Debug *record) {
	(void)record;
	poll_run(L);
	count_instructions(L);
}

// end_run unwinds the run. From now on each instruction of a handler that gets in between ends it again.
static void end_run(lua_State *L) {
	lua_sethook(L, on_count, LUA_MASKCOUNT, 1);
	fail(L, "the script is to end");
}

void end_if_ending(lua_State *L) {
	if (interpreter_of(L)->ending)
		end_run(L);
}

void poll_run(lua_State *L) {
	if (is_to_end(interpreter_of(L)))
		end_run(L);
}

// note_place is the handler of errors: it notes where one was raised.
static int note_place(lua_State *L) {
	note_line(L, 1);
	return 1;
}

// push_words pushes a table of the words that stand one behind the other, each behind its length.
static const char *push_words(lua_State *L, const char *at, size_t count) {
	lua_createtable(L, (int)count, 0);
	for (size_t i = 1; i <= count; i++) {
		uint32_t length;
		memcpy(&length, at, sizeof length);
		lua_pushlstring(L, at + sizeof length, length);
		lua_rawseti(L, -2, (int)i);
		at += sizeof length + length;
	}
	return at;
}

// The globals of scripts: what they are, and what scripts see.
static const char globals_key, seen_key;

// What a run is given.
struct run {
	int function;   // reference of what is called
	int registered; // it is a function of a library
	const char *words;
	size_t keys, arguments;
};

// register_as keeps the value on top of the stack in the registry, and leaves it there.
static void register_as(lua_State *L, const void *key) {
	lua_pushlightuserdata(L, (void *)key);
	lua_pushvalue(L, -2);
	lua_rawset(L, LUA_REGISTRYINDEX);
}

static void push_registered(lua_State *L, const void *key) {
	lua_pushlightuserdata(L, (void *)key);
	lua_rawget(L, LUA_REGISTRYINDEX);
}

// The upvalues of run, which it needs each time.
enum { GLOBALS = 1, SEEN, KEYS, ARGV };

// call_script calls a script, whose words are globals.
static void call_script(lua_State *L, const struct run *r) {
	lua_pushvalue(L, lua_upvalueindex(SEEN));
	lua_replace(L, LUA_GLOBALSINDEX);
	lua_pushvalue(L, lua_upvalueindex(KEYS));
	const char *arguments = push_words(L, r->words, r->keys);
	lua_rawset(L, lua_upvalueindex(GLOBALS));
	lua_pushvalue(L, lua_upvalueindex(ARGV));
	push_words(L, arguments, r->arguments);
	lua_rawset(L, lua_upvalueindex(GLOBALS));
	lua_rawgeti(L, LUA_REGISTRYINDEX, r->function);
	lua_call(L, 0, 1);
}

// call_function calls a function, which is given its words.
static void call_function(lua_State *L, struct interpreter *in, const struct run *r) {
	lua_rawgeti(L, LUA_REGISTRYINDEX, in->function_globals);
	lua_replace(L, LUA_GLOBALSINDEX);
	lua_rawgeti(L, LUA_REGISTRYINDEX, r->function);
	const char *arguments = push_words(L, r->words, r->keys);
	push_words(L, arguments, r->arguments);
	lua_call(L, 2, 1);
}

// run calls what a struct run says, and writes the reply.
static int run(lua_State *L) {
	const struct run *r = lua_touserdata(L, 1);
	struct interpreter *in = interpreter_of(L);
	lua_settop(L, 0);
	if (r->registered)
		call_function(L, in, r);
	else
		call_script(L, r);
	in->output.length = 0;
	write_reply(L, in);
	return 0;
}

static void push_runner(lua_State *L) {
	push_registered(L, &globals_key);
	push_registered(L, &seen_key);
	lua_pushliteral(L, "KEYS");
	lua_pushliteral(L, "ARGV");
	lua_pushcclosure(L, run, 4);
}

// text_reader hands a text to the parser, behind a space if that is left.
struct text_reader {
	const char *text;
	size_t length;
	int space;
};

// So many bytes take the parser some milliseconds.
enum { TEXT_PER_POLL = 32 << 10 };

static const char *read_text(lua_State *L, void *from, size_t *length) {
	struct text_reader *r = from;
	if (r->space) {
		r->space = 0;
		*length = 1;
		return " ";
	}
	if (r->length > TEXT_PER_POLL)
		poll_run(L);
	const char *piece = r->text;
	*length = r->length < TEXT_PER_POLL ? r->length : TEXT_PER_POLL;
	r->text += *length;
	r->length -= *length;
	return *length > 0 ? piece : NULL;
}

int parse_text(lua_State *L, const char *text, size_t length, const char *name) {
	struct text_reader r = {text, length, length > 0 && text[0] == LUA_SIGNATURE[0]};
	lua_gc(L, LUA_GCSTOP, 0);
	int failed = lua_load(L, read_text, &r, name);
	lua_gc(L, LUA_GCRESTART, 0);
	return failed;
}

// compile compiles a source.
static int compile(lua_State *L) {
	struct source *s = lua_touserdata(L, 1);
	push_registered(L, &seen_key);
	lua_replace(L, LUA_GLOBALSINDEX);
	if (parse_text(L, s->text, s->length, s->name))
		return lua_error(L);
	s->reference = luaL_ref(L, LUA_REGISTRYINDEX);
	return 0;
}

// text_of_error leaves the text of the error on top of the stack in output. It must not raise another one.
static void text_of_error(struct interpreter *in, int prefixed) {
	lua_State *L = in->lua;
	const char *text = "unknown error";
	char number[32];
	int raw = 0;
	switch (lua_type(L, -1)) {
	case LUA_TSTRING:
		text = lua_tostring(L, -1);
		break;
	case LUA_TNUMBER:
		snprintf(number, sizeof number, LUA_NUMBER_FMT, lua_tonumber(L, -1));
		text = number;
		break;
	case LUA_TNIL:
		text = "nil";
		break;
	case LUA_TBOOLEAN:
		text = lua_toboolean(L, -1) ? "true" : "false";
		break;
	case LUA_TTABLE:
		for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
			if (lua_type(L, -2) != LUA_TSTRING)
				continue;
			const char *name = lua_tostring(L, -2);
			if (strcmp(name, "err") == 0 && lua_isstring(L, -1)) {
				text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : number;
				if (text == number)
					snprintf(number, sizeof number, LUA_NUMBER_FMT, lua_tonumber(L, -1));
				raw = 1;
			} else if (strcmp(name, MET_FIELD) == 0) {
				in->met = lua_isboolean(L, -1) && lua_toboolean(L, -1);
			}
		}
		break;
	default:
		snprintf(number, sizeof number, "%s: %p", luaL_typename(L, -1), lua_topointer(L, -1));
		text = number;
	}
	size_t length = strlen(text);
	in->output.length = 0;
	if (!interpreter_reserve(in, &in->output, length + 5)) { // the script has used it all up
		text = "not enough memory";
		length = strlen(text);
		raw = 0;
		if (!reserve_beyond(in, &in->output, length + 5))
			return;
	}
	if (prefixed && !raw) {
		memcpy(in->output.data, "ERR ", 4);
		in->output.length = 4;
	}
	memcpy(in->output.data + in->output.length, text, length);
	in->output.length += length;
}

// collect collects what earlier runs have left, if that is much: Lua 5.1 doesn't when memory runs out. Much is a quarter of what the last
// collection left free, so that a run has the other three quarters, and one of a library that keeps much doesn't collect each time. The
// collector itself takes some memory, and must get it, since nobody catches its error here.
static void collect(struct interpreter *in) {
	if (in->kept > in->used)
		in->kept = in->used;
	size_t left = in->limit > in->kept ? in->limit - in->kept : 0;
	if (in->used - in->kept < left / 4)
		return;
	size_t limit = in->limit;
	in->limit = SIZE_MAX;
	lua_gc(in->lua, LUA_GCCOLLECT, 0);
	in->limit = limit;
	in->kept = in->used;
}

// on_panic is called for an error that nobody catches, which is a fault of ours: whatever may fail has to be called in protected mode, or
// without a limit. Lua would end the process without a word.
static int on_panic(lua_State *L) {
	const char *text = lua_tostring(L, -1);
	fprintf(stderr, "script: an error outside of protected mode: %s\n", text != NULL ? text : "unknown");
	abort();
}

// call calls one of the functions that wait on the stack, with a pointer, and tells how that has ended.
static int call(struct interpreter *in, int function, void *argument, int64_t within, int prefixed) {
	lua_State *L = in->lua;
	collect(in);
	in->ending = END_DONE;
	in->within = within;
	in->deadline = 0;
	in->moved = 0;
	in->line = 0;
	in->met = 0;
	count_instructions(L);
	lua_pushvalue(L, function);
	lua_pushlightuserdata(L, argument);
	in->underway = 1;
	int failed = lua_pcall(L, 1, 0, HANDLER);
	in->underway = 0;
	atomic_store(&in->kill, 0);
	if (failed && in->ending == END_DONE) {
		in->ending = END_ERROR;
		text_of_error(in, prefixed);
	}
	lua_settop(L, RESTORER);
	return in->ending;
}

int interpreter_compile(struct interpreter *in, const char *source, size_t length, int *reference) {
	struct source s = {source, length, "@user_script", LUA_NOREF};
	in->largest = 0;
	int end = call(in, COMPILER, &s, 0, 0);
	*reference = s.reference;
	return end;
}

int interpreter_load(struct interpreter *in, const char *source, size_t length, int64_t within, int *compiled) {
	struct source s = {source, length, "@user_function", LUA_NOREF};
	in->registered.length = 0;
	in->largest = 0;
	int end = call(in, COMPILER, &s, 0, 0);
	*compiled = end == END_DONE;
	if (end != END_DONE)
		return end;
	end = call(in, LOADER, &s, within, 1);
	end_loading(in);
	interpreter_forget(in, s.reference);
	return end;
}

// interpreter_forget gets the memory that the registry may take when it notes which reference is free: nobody catches an error here.
void interpreter_forget(struct interpreter *in, int reference) {
	size_t limit = in->limit;
	in->limit = SIZE_MAX;
	luaL_unref(in->lua, LUA_REGISTRYINDEX, reference);
	in->limit = limit;
}

// retained is how much memory for words and replies is kept between two runs.
enum { RETAINED = 64 << 10 };

// interpreter_run runs a function. literals is what compiling it, or loading its library, has left
// as the largest text.
int interpreter_run(struct interpreter *in, int function, int registered, size_t literals, const char *words, size_t keys, size_t arguments,
	int client, int64_t within) {
	struct run r = {function, registered, words, keys, arguments};
	if (in->input.capacity > RETAINED)
		release(in, &in->input);
	if (in->output.capacity > RETAINED)
		release(in, &in->output);
	if (in->registered.capacity > RETAINED)
		release(in, &in->registered);
	size_t reached = registered ? in->used : 0; // what a library keeps
	if (in->largest > reached)
		in->largest = reached;
	if (in->largest < literals)
		in->largest = literals;
	in->client = client;
	in->protocol = 2;
	seed_random(in);
	reset_json(in);
	return call(in, RUNNER, &r, within, 1);
}

int interpreter_snapshot(struct interpreter *in, int function) {
	in->snapshot = (struct snapshot){function, 0, 1};
	return call(in, TAKER, &in->snapshot, 0, 0) == END_DONE && in->snapshot.whole;
}

int interpreter_restore(struct interpreter *in) { return call(in, RESTORER, &in->snapshot, 0, 0) == END_DONE; }

void interpreter_kill(struct interpreter *in) { atomic_store(&in->kill, 1); }

void interpreter_spare(struct interpreter *in) { atomic_store(&in->kill, 0); }

static const char protected_key;

static int refuse_write(lua_State *L) {
	luaL_where(L, 1);
	lua_pushliteral(L, "Attempt to modify a readonly table");
	lua_concat(L, 2);
	return lua_error(L);
}

void protect(lua_State *L) {
	lua_newtable(L); // it stays empty, so every access goes to its metatable
	lua_createtable(L, 0, 3);
	lua_pushvalue(L, -3);
	lua_setfield(L, -2, "__index");
	lua_pushcfunction(L, refuse_write);
	lua_setfield(L, -2, "__newindex");
	lua_pushlightuserdata(L, (void *)&protected_key);
	lua_pushvalue(L, -4);
	lua_rawset(L, -3);
	lua_setmetatable(L, -2);
	lua_replace(L, -2);
}

void point_protected(lua_State *L) {
	lua_pushlightuserdata(L, (void *)&protected_key);
	lua_pushvalue(L, -2);
	lua_rawset(L, -4);
	lua_setfield(L, -2, "__index");
}

int reveal(lua_State *L, int index) {
	if (lua_type(L, index) != LUA_TTABLE || !lua_getmetatable(L, index))
		return 0;
	lua_pushlightuserdata(L, (void *)&protected_key);
	lua_rawget(L, -2);
	int is = !lua_isnil(L, -1);
	if (is) {
		lua_pushvalue(L, -1);
		lua_replace(L, index);
	}
	lua_pop(L, 2);
	return is;
}

static int refuse_unknown(lua_State *L) {
	return luaL_error(L, "Script attempted to access nonexistent global variable '%s'", lua_tostring(L, 2));
}

// The only globals of the libraries that scripts get.
static const char *const allowed[] = {"_VERSION", "assert", "coroutine", "error", "gcinfo", "ipairs", "math", "rawequal", "select",
	"string", "table", "tonumber", "tostring", "type", NULL};

static void copy_allowed(lua_State *L, int to) {
	for (const char *const *name = allowed; *name != NULL; name++) {
		lua_getglobal(L, *name);
		lua_setfield(L, to, *name);
	}
}

// prepare makes the globals of a state. Scripts see them through a table that can't be written to.
static int prepare(lua_State *L) {
	static const lua_CFunction libraries[] = {luaopen_base, luaopen_table, luaopen_string, luaopen_math, NULL};
	for (const lua_CFunction *open = libraries; *open != NULL; open++) {
		lua_pushcfunction(L, *open);
		lua_call(L, 0, 0);
	}
	lua_settop(L, 0);
	lua_newtable(L);
	copy_allowed(L, 1);
	lua_pushvalue(L, 1);
	lua_replace(L, LUA_GLOBALSINDEX);
	open_base(L);
	open_strings(L);
	open_tables(L);
	open_random(L);
	open_bit(L);
	open_struct(L);
	open_json(L);
	open_messagepack(L);
	open_redis(L);
	static const char *const tables[] = {"coroutine", "math", "string", "table", "bit", "struct", "cjson", "cmsgpack", NULL};
	for (const char *const *name = tables; *name != NULL; name++) {
		lua_getglobal(L, *name);
		protect(L);
		lua_setglobal(L, *name);
	}
	lua_pushliteral(L, "");
	lua_getmetatable(L, -1);
	lua_getglobal(L, "string");
	lua_setfield(L, -2, "__index");
	lua_settop(L, 1);
	lua_createtable(L, 0, 1);
	lua_pushcfunction(L, refuse_unknown);
	lua_setfield(L, -2, "__index");
	lua_insert(L, 1);
	open_functions(L);
	lua_getglobal(L, "redis");
	protect(L);
	lua_setglobal(L, "redis");
	register_as(L, &globals_key);
	lua_pushvalue(L, 1);
	lua_setmetatable(L, 2);
	protect(L);
	lua_pushvalue(L, -1);
	lua_setglobal(L, "_G");
	register_as(L, &seen_key);
	lua_replace(L, LUA_GLOBALSINDEX);
	return 0;
}

struct interpreter *interpreter_open(uintptr_t handle, size_t limit, const char *version, int number, uint64_t seed) {
	struct interpreter *in = calloc(1, sizeof *in);
	if (in == NULL)
		return NULL;
	in->seed = seed;
	in->handle = handle;
	in->limit = limit;
	in->version = version;
	in->number = number;
	in->lua = lua_newstate(allocate, in);
	if (in->lua != NULL)
		lua_atpanic(in->lua, on_panic);
	if (in->lua == NULL || lua_cpcall(in->lua, prepare, NULL) != 0) {
		interpreter_close(in);
		return NULL;
	}
	lua_pushcfunction(in->lua, note_place);
	push_runner(in->lua);
	lua_pushcfunction(in->lua, compile);
	lua_pushcfunction(in->lua, load_library);
	lua_pushcfunction(in->lua, take_snapshot);
	lua_pushcfunction(in->lua, restore_snapshot);
	return in;
}

void interpreter_close(struct interpreter *in) {
	if (in->lua != NULL) {
		in->limit = SIZE_MAX; // the collector itself takes some memory, and nobody catches its error here
		lua_gc(in->lua, LUA_GCCOLLECT, 0); // CVE-2024-46981
		lua_close(in->lua);
	}
	free(in->input.data);
	free(in->output.data);
	free(in->registered.data);
	free_spare(in);
	free(in);
}
