// The library cmsgpack: values of Lua as MessagePack, with the results of the one in Redis.
#include "interpreter.h"

#include <limits.h>
#include <math.h>
#include <string.h>

// What is nested deeper is packed as nil.
enum { DEEPEST = 16 };

struct packer {
	lua_State *L;
	struct bytes *out;
	unsigned steps;
};

// add_big adds the lowest bytes of a number, the highest of them first, behind a code.
static void add_big(struct packer *p, int code, uint64_t n, int bytes) {
	unsigned char text[9] = {(unsigned char)code};
	for (int i = bytes; i > 0; i--, n >>= 8)
		text[i] = (unsigned char)n;
	add(p->L, p->out, text, (size_t)bytes + 1);
}

static void pack_integer(struct packer *p, int64_t n) {
	if (n >= 0) {
		if (n <= 127) add_big(p, (int)n, 0, 0);
		else if (n <= 0xFF) add_big(p, 0xCC, (uint64_t)n, 1);
		else if (n <= 0xFFFF) add_big(p, 0xCD, (uint64_t)n, 2);
		else if (n <= 0xFFFFFFFF) add_big(p, 0xCE, (uint64_t)n, 4);
		else add_big(p, 0xCF, (uint64_t)n, 8);
	} else if (n >= -32) add_big(p, (int)(n & 0xFF), 0, 0);
	else if (n >= -128) add_big(p, 0xD0, (uint64_t)n, 1);
	else if (n >= -32768) add_big(p, 0xD1, (uint64_t)n, 2);
	else if (n >= -2147483648LL) add_big(p, 0xD2, (uint64_t)n, 4);
	else add_big(p, 0xD3, (uint64_t)n, 8);
}

static void pack_number(struct packer *p, lua_Number n) {
	if (n >= -9223372036854775808.0 && n < 9223372036854775808.0 && n == floor(n)) {
		pack_integer(p, (int64_t)n);
		return;
	}
	float f = (float)n;
	if ((lua_Number)f == n) {
		uint32_t bits;
		memcpy(&bits, &f, sizeof bits);
		add_big(p, 0xCA, bits, 4);
		return;
	}
	uint64_t bits;
	memcpy(&bits, &n, sizeof bits);
	add_big(p, 0xCB, bits, 8);
}

static void pack_string(struct packer *p, const char *text, size_t length) {
	if (length < 32) add_big(p, (int)(0xA0 | length), 0, 0);
	else if (length <= 0xFF) add_big(p, 0xD9, length, 1);
	else if (length <= 0xFFFF) add_big(p, 0xDA, length, 2);
	else add_big(p, 0xDB, length, 4);
	add(p->L, p->out, text, length);
}

// count_entries counts the entries of the table on top, and tells whether it is an array: its keys are 1, 2 … as many as there are.
static size_t count_entries(lua_State *L, int *is_array) {
	size_t count = 0;
	lua_Number most = 0;
	*is_array = 1;
	for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
		count++;
		lua_Number key = lua_type(L, -2) == LUA_TNUMBER ? lua_tonumber(L, -2) : 0;
		if (key <= 0 || key != floor(key))
			*is_array = 0;
		else if (key > most)
			most = key;
	}
	*is_array = *is_array && most == (lua_Number)count;
	return count;
}

static void pack_value(struct packer *p, int depth);

static void pack_table(struct packer *p, int depth) {
	lua_State *L = p->L;
	int is_array;
	reveal(L, lua_gettop(L));
	size_t count = count_entries(L, &is_array);
	if (count <= 15) add_big(p, (int)((is_array ? 0x90 : 0x80) | count), 0, 0);
	else if (count <= 0xFFFF) add_big(p, is_array ? 0xDC : 0xDE, count, 2);
	else add_big(p, is_array ? 0xDD : 0xDF, count, 4);
	if (is_array) {
		for (size_t i = 1; i <= count; i++) {
			lua_rawgeti(L, -1, (int)i);
			pack_value(p, depth + 1);
		}
		return;
	}
	for (lua_pushnil(L); lua_next(L, -2);) {
		lua_pushvalue(L, -2);
		pack_value(p, depth + 1);
		pack_value(p, depth + 1);
	}
}

// pack_value packs the value on top, and pops it.
static void pack_value(struct packer *p, int depth) {
	lua_State *L = p->L;
	luaL_checkstack(L, 5, "in function mp_encode_lua_type");
	if (++p->steps % 1024 == 0)
		poll_run(L);
	size_t length;
	const char *text;
	int type = lua_type(L, -1);
	if (type == LUA_TTABLE && depth == DEEPEST)
		type = LUA_TNIL;
	switch (type) {
	case LUA_TSTRING:
		text = lua_tolstring(L, -1, &length);
		pack_string(p, text, length);
		break;
	case LUA_TBOOLEAN: add_big(p, lua_toboolean(L, -1) ? 0xC3 : 0xC2, 0, 0); break;
	case LUA_TNUMBER: pack_number(p, lua_tonumber(L, -1)); break;
	case LUA_TTABLE: pack_table(p, depth); break;
	default: add_big(p, 0xC0, 0, 0);
	}
	lua_pop(L, 1);
}

static int messagepack_pack(lua_State *L) {
	struct packer p = {L, &interpreter_of(L)->output, 0};
	int count = lua_gettop(L);
	if (count == 0)
		return luaL_argerror(L, 0, "MessagePack pack needs input.");
	p.out->length = 0;
	for (int i = 1; i <= count; i++) {
		luaL_checkstack(L, 1, "in function MessagePack pack");
		lua_pushvalue(L, i);
		pack_value(&p, 0);
	}
	lua_pushlstring(L, p.out->data, p.out->length);
	return 1;
}

struct unpacker {
	lua_State *L;
	const unsigned char *at;
	size_t left;
	unsigned steps;
};

static const unsigned char *take(struct unpacker *u, size_t count) {
	if (u->left < count)
		luaL_error(u->L, "Missing bytes in input.");
	const unsigned char *begin = u->at;
	u->at += count;
	u->left -= count;
	return begin;
}

static uint64_t take_number(struct unpacker *u, size_t bytes) {
	const unsigned char *at = take(u, bytes);
	uint64_t n = 0;
	for (size_t i = 0; i < bytes; i++)
		n = n << 8 | at[i];
	return n;
}

static void unpack_value(struct unpacker *u);

static void unpack_array(struct unpacker *u, size_t count) {
	lua_newtable(u->L);
	luaL_checkstack(u->L, 3, "in function mp_decode_to_lua_array");
	for (size_t i = 1; i <= count; i++) {
		lua_pushnumber(u->L, (lua_Number)i);
		unpack_value(u);
		lua_settable(u->L, -3);
	}
}

static void unpack_map(struct unpacker *u, size_t count) {
	lua_newtable(u->L);
	luaL_checkstack(u->L, 3, "in function mp_decode_to_lua_hash");
	for (; count > 0; count--) {
		unpack_value(u);
		unpack_value(u);
		lua_settable(u->L, -3);
	}
}

static void unpack_string(struct unpacker *u, size_t length) {
	const unsigned char *text = take(u, length);
	lua_pushlstring(u->L, (const char *)text, length);
}

static void unpack_float(struct unpacker *u) {
	uint32_t bits = (uint32_t)take_number(u, 4);
	float f;
	memcpy(&f, &bits, sizeof f);
	lua_pushnumber(u->L, f);
}

static void unpack_double(struct unpacker *u) {
	uint64_t bits = take_number(u, 8);
	double d;
	memcpy(&d, &bits, sizeof d);
	lua_pushnumber(u->L, d);
}

static void unpack_value(struct unpacker *u) {
	lua_State *L = u->L;
	luaL_checkstack(L, 4, "too many return values at once; use unpack_one or unpack_limit instead.");
	if (++u->steps % 1024 == 0)
		poll_run(L);
	int code = *take(u, 1);
	switch (code) {
	case 0xC0: lua_pushnil(L); return;
	case 0xC2: lua_pushboolean(L, 0); return;
	case 0xC3: lua_pushboolean(L, 1); return;
	case 0xCA: unpack_float(u); return;
	case 0xCB: unpack_double(u); return;
	case 0xCC: lua_pushnumber(L, (lua_Number)take_number(u, 1)); return;
	case 0xCD: lua_pushnumber(L, (lua_Number)take_number(u, 2)); return;
	case 0xCE: lua_pushnumber(L, (lua_Number)take_number(u, 4)); return;
	case 0xCF: // Redis takes it for signed, too
	case 0xD3: lua_pushnumber(L, (lua_Number)(int64_t)take_number(u, 8)); return;
	case 0xD0: lua_pushnumber(L, (int8_t)take_number(u, 1)); return;
	case 0xD1: lua_pushnumber(L, (int16_t)take_number(u, 2)); return;
	case 0xD2: lua_pushnumber(L, (int32_t)take_number(u, 4)); return;
	case 0xD9: unpack_string(u, take_number(u, 1)); return;
	case 0xDA: unpack_string(u, take_number(u, 2)); return;
	case 0xDB: unpack_string(u, take_number(u, 4)); return;
	case 0xDC: unpack_array(u, take_number(u, 2)); return;
	case 0xDD: unpack_array(u, take_number(u, 4)); return;
	case 0xDE: unpack_map(u, take_number(u, 2)); return;
	case 0xDF: unpack_map(u, take_number(u, 4)); return;
	}
	if (code <= 0x7F)
		lua_pushnumber(L, code);
	else if (code >= 0xE0)
		lua_pushnumber(L, (int8_t)code);
	else if ((code & 0xE0) == 0xA0)
		unpack_string(u, code & 31);
	else if ((code & 0xF0) == 0x90)
		unpack_array(u, code & 15);
	else if ((code & 0xF0) == 0x80)
		unpack_map(u, code & 15);
	else
		luaL_error(L, "Bad data format in input.");
}

// unpack_some unpacks as many values as asked for from an offset, and says before them where to go on; or all of them.
static int unpack_some(lua_State *L, lua_Integer limit, lua_Integer offset) {
	size_t length;
	const char *text = luaL_checklstring(L, 1, &length);
	int all = limit == 0 && offset == 0;
	if (offset < 0 || limit < 0)
		return luaL_error(L, "Invalid request to unpack with offset of %d and limit of %d.", (int)offset, (int)length);
	if ((size_t)offset > length)
		return luaL_error(L, "Start offset %d greater than input length %d.", (int)offset, (int)length);
	if (all)
		limit = INT_MAX;
	struct unpacker u = {L, (const unsigned char *)text + offset, length - (size_t)offset, 0};
	int count = 0;
	for (; u.left > 0 && count < limit; count++)
		unpack_value(&u);
	if (all)
		return count;
	luaL_checkstack(L, 1, "too many results");
	lua_pushinteger(L, u.left == 0 ? -1 : (lua_Integer)(length - u.left));
	lua_insert(L, -count - 1);
	return count + 1;
}

static int messagepack_unpack(lua_State *L) { return unpack_some(L, 0, 0); }

static int messagepack_unpack_one(lua_State *L) {
	lua_Integer offset = luaL_optinteger(L, 2, 0);
	lua_settop(L, 1);
	return unpack_some(L, 1, offset);
}

static int messagepack_unpack_limit(lua_State *L) {
	lua_Integer limit = luaL_checkinteger(L, 2), offset = luaL_optinteger(L, 3, 0);
	lua_settop(L, 1);
	return unpack_some(L, limit, offset);
}

static void set_text(lua_State *L, const char *name, const char *text) {
	lua_pushstring(L, text);
	lua_setfield(L, -2, name);
}

void open_messagepack(lua_State *L) {
	static const luaL_Reg functions[] = {{"pack", messagepack_pack}, {"unpack", messagepack_unpack},
		{"unpack_one", messagepack_unpack_one}, {"unpack_limit", messagepack_unpack_limit}, {NULL, NULL}};
	lua_newtable(L);
	luaL_register(L, NULL, functions);
	set_text(L, "_NAME", "cmsgpack");
	set_text(L, "_VERSION", "lua-cmsgpack 0.4.0");
	set_text(L, "_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo");
	set_text(L, "_DESCRIPTION", "MessagePack C implementation for Lua");
	lua_setglobal(L, "cmsgpack");
}
