// Which functions keep state from one run to the next: those that write a variable of their library, or that refer to a table of it.
#include "interpreter.h"

#include <stdint.h>
#include <string.h>

// What is read of the form in which lua_dump writes functions (Lua 5.1):
//
//	header:12 | function
//	function     name:string | lines:8 | upvalues:1 | parameters:1 | variable:1 | stack:1 | code | constants | functions | lines | locals | names
//	string       length:8 | bytes
//	code         count:4 | instruction:4 …
//	constants    count:4 | { type:1 | nothing, a byte, a number:8 or a string } …
enum { HEADER = 12 };

// The instructions that are looked at, and where their operands stand.
enum { OP_MOVE = 0, OP_SETUPVAL = 8, OP_SETLIST = 34, OP_CLOSURE = 36, OP_GETUPVAL = 4 };

static int operation(uint32_t i) { return (int)(i & 0x3F); }
static int operand_b(uint32_t i) { return (int)(i >> 23); }
static int operand_c(uint32_t i) { return (int)(i >> 14 & 0x1FF); }
static int operand_bx(uint32_t i) { return (int)(i >> 14); }

struct dump {
	const char *at;
};

static uint32_t read_number(struct dump *d) {
	uint32_t n;
	memcpy(&n, d->at, sizeof n);
	d->at += sizeof n;
	return n;
}

static void skip_string(struct dump *d) {
	size_t length;
	memcpy(&length, d->at, sizeof length);
	d->at += sizeof length + length;
}

static void skip_constants(struct dump *d) {
	for (uint32_t count = read_number(d); count > 0; count--) {
		switch (*d->at++) {
		case LUA_TBOOLEAN: d->at++; break;
		case LUA_TNUMBER: d->at += sizeof(lua_Number); break;
		case LUA_TSTRING: skip_string(d); break;
		}
	}
}

static void skip_debug(struct dump *d) {
	uint32_t lines = read_number(d);
	d->at += 4 * (size_t)lines;
	for (uint32_t locals = read_number(d); locals > 0; locals--) {
		skip_string(d);
		d->at += 8;
	}
	for (uint32_t names = read_number(d); names > 0; names--)
		skip_string(d);
}

// written is a set of upvalues, of which a function has at most 60.
typedef uint64_t written;

// inner is what is known of a function inside of another one.
struct inner {
	written upvalues;
	int count;
};

// through returns which upvalues of a function are written by one inside of it, which is made by an instruction before these.
static written through(const struct inner *f, const char *code) {
	written set = 0;
	for (int n = 0; n < f->count; n++) {
		uint32_t i;
		memcpy(&i, code + 4 * n, sizeof i);
		if (operation(i) == OP_GETUPVAL && (f->upvalues >> n & 1) != 0)
			set |= (written)1 << operand_b(i);
	}
	return set;
}

// read_function returns which of its upvalues a function writes, or has a function inside of it write.
static struct inner read_function(lua_State *L, struct dump *d) {
	struct inner f = {0, 0};
	luaL_checkstack(L, 1, "functions are nested too deeply");
	skip_string(d);
	d->at += 8;
	f.count = *(const unsigned char *)d->at;
	d->at += 4;
	uint32_t size = read_number(d);
	const char *code = d->at;
	d->at += 4 * (size_t)size;
	skip_constants(d);
	uint32_t functions = read_number(d);
	struct inner *inside = lua_newuserdata(L, (functions + 1) * sizeof *inside);
	for (uint32_t n = 0; n < functions; n++)
		inside[n] = read_function(L, d);
	skip_debug(d);
	for (uint32_t n = 0; n < size; n++) {
		uint32_t i;
		memcpy(&i, code + 4 * (size_t)n, sizeof i);
		switch (operation(i)) {
		case OP_SETUPVAL: f.upvalues |= (written)1 << operand_b(i); break;
		case OP_SETLIST: n += operand_c(i) == 0; break; // a number follows
		case OP_CLOSURE: f.upvalues |= through(&inside[operand_bx(i)], code + 4 * ((size_t)n + 1)); break;
		}
	}
	lua_pop(L, 1);
	return f;
}

static int write_dump(lua_State *L, const void *data, size_t length, void *to) {
	add(L, to, data, length);
	return 0;
}

// writes_upvalues reports whether the function on top of the stack writes one of its upvalues.
static int writes_upvalues(lua_State *L) {
	struct interpreter *in = interpreter_of(L);
	in->output.length = 0;
	if (lua_iscfunction(L, -1) || lua_dump(L, write_dump, &in->output) != 0)
		return 0;
	struct dump d = {in->output.data + HEADER};
	return read_function(L, &d).upvalues != 0;
}

static int any_state(lua_State *L, int seen);

// value_keeps_state looks at a value that a function refers to, which is on top of the stack, and pops it.
static int value_keeps_state(lua_State *L, int seen) {
	int state = 0;
	switch (lua_type(L, -1)) {
	case LUA_TTABLE:
		state = !reveal(L, lua_gettop(L)); // what is protected is written by nobody
		break;
	case LUA_TFUNCTION:
		state = any_state(L, seen);
	}
	lua_pop(L, 1);
	return state;
}

// any_state is keeps_state for a function that isn't popped, and may have been seen before.
static int any_state(lua_State *L, int seen) {
	luaL_checkstack(L, 4, "functions refer to each other too deeply");
	lua_pushvalue(L, -1);
	lua_rawget(L, seen);
	int known = !lua_isnil(L, -1);
	lua_pop(L, 1);
	if (known)
		return 0;
	lua_pushvalue(L, -1);
	lua_pushboolean(L, 1);
	lua_rawset(L, seen);
	int state = writes_upvalues(L), native = lua_iscfunction(L, -1);
	for (int n = 1; !state && lua_getupvalue(L, -1, n) != NULL; n++) {
		// An iterator of C, such as gmatch's, changes its variables; those of others are functions.
		int changes = native && !lua_isfunction(L, -1);
		state = value_keeps_state(L, seen) || changes;
	}
	return state;
}

int keeps_state(lua_State *L) {
	lua_newtable(L);
	lua_insert(L, -2);
	int state = any_state(L, lua_gettop(L) - 1);
	lua_pop(L, 2);
	return state;
}
