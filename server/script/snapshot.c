// What a function keeps from one run to the next, as it was before a run: the tables and variables that it reaches. A run that is taken back is
// repeated, and must find them so.
#include "interpreter.h"

// The snapshot is a list, which is used again for the next one. Each table or function stands in it with its size, followed by
//
//	table     its metatable or false, and then each key and value
//	function  each variable that it refers to
static const char snapshot_key;

// MOST is how long the list may be. Taking so much takes some 50 us.
enum { MOST = 1000 };

// Where things stand on the stack while a snapshot is taken or restored.
enum { ARGUMENT = 1, LIST, SEEN };

static void push(lua_State *L, struct snapshot *s) {
	if (s->length >= MOST) {
		s->whole = 0;
		lua_pop(L, 1);
		return;
	}
	lua_rawseti(L, LIST, ++s->length);
}

static void push_fields(lua_State *L, struct snapshot *s, int table) {
	if (!lua_getmetatable(L, table))
		lua_pushboolean(L, 0);
	push(L, s);
	for (lua_pushnil(L); s->whole && lua_next(L, table);) {
		lua_pushvalue(L, -2);
		push(L, s);
		push(L, s);
	}
}

static void push_upvalues(lua_State *L, struct snapshot *s, int function) {
	for (int n = 1; s->whole && lua_getupvalue(L, function, n) != NULL; n++)
		push(L, s);
}

static int is_protected(lua_State *L, int index) {
	lua_pushvalue(L, index);
	int is = reveal(L, lua_gettop(L));
	lua_pop(L, 1);
	return is;
}

// seen reports whether the value on top of the stack was taken already, and notes that it is.
static int seen(lua_State *L) {
	lua_pushvalue(L, -1);
	lua_rawget(L, SEEN);
	int was = !lua_isnil(L, -1);
	lua_pop(L, 1);
	if (was)
		return 1;
	lua_pushvalue(L, -1);
	lua_pushboolean(L, 1);
	lua_rawset(L, SEEN);
	return 0;
}

// take_container takes a table or a function.
static void take_container(lua_State *L, struct snapshot *s, int index) {
	lua_pushvalue(L, index);
	push(L, s);
	int size = s->length + 1;
	lua_pushnil(L);
	push(L, s);
	if (lua_type(L, index) == LUA_TTABLE)
		push_fields(L, s, index);
	else
		push_upvalues(L, s, index);
	if (s->whole) {
		lua_pushinteger(L, s->length - size);
		lua_rawseti(L, LIST, size);
	}
}

// take_value takes what the value on top of the stack holds, and pops it.
static void take_value(lua_State *L, struct snapshot *s) {
	int top = lua_gettop(L);
	switch (lua_type(L, top)) {
	case LUA_TTHREAD: // nobody can copy a coroutine
		s->whole = 0;
		break;
	case LUA_TTABLE:
		if (!is_protected(L, top) && !seen(L))
			take_container(L, s, top);
		break;
	case LUA_TFUNCTION: // iterators are functions of C with variables
		if (!seen(L))
			take_container(L, s, top);
	}
	lua_settop(L, top - 1);
}

static void push_list(lua_State *L) {
	lua_settop(L, ARGUMENT);
	lua_pushlightuserdata(L, (void *)&snapshot_key);
	lua_rawget(L, LUA_REGISTRYINDEX);
}

int take_snapshot(lua_State *L) {
	struct snapshot *s = lua_touserdata(L, ARGUMENT);
	push_list(L);
	if (lua_isnil(L, LIST)) {
		lua_newtable(L);
		lua_replace(L, LIST);
		lua_pushlightuserdata(L, (void *)&snapshot_key);
		lua_pushvalue(L, LIST);
		lua_rawset(L, LUA_REGISTRYINDEX);
	}
	lua_newtable(L);
	lua_rawgeti(L, LUA_REGISTRYINDEX, s->function);
	take_value(L, s);
	for (int i = 1; s->whole && i <= s->length; i++) { // what was taken refers to more
		lua_rawgeti(L, LIST, i);
		take_value(L, s);
	}
	return 0;
}

// restore_table restores the table on top of the stack by the list from a place on.
static void restore_table(lua_State *L, int at, int size) {
	int table = lua_gettop(L);
	for (lua_pushnil(L); lua_next(L, table);) {
		lua_pop(L, 1);
		lua_pushvalue(L, -1);
		lua_pushnil(L);
		lua_rawset(L, table);
	}
	lua_rawgeti(L, LIST, at);
	if (!lua_istable(L, -1)) {
		lua_pop(L, 1);
		lua_pushnil(L);
	}
	lua_setmetatable(L, table);
	for (int n = 1; n < size; n += 2) {
		lua_rawgeti(L, LIST, at + n);
		lua_rawgeti(L, LIST, at + n + 1);
		lua_rawset(L, table);
	}
}

static void restore_upvalues(lua_State *L, int at, int size) {
	int function = lua_gettop(L);
	for (int n = 0; n < size; n++) {
		lua_rawgeti(L, LIST, at + n);
		lua_setupvalue(L, function, n + 1);
	}
}

int restore_snapshot(lua_State *L) {
	const struct snapshot *s = lua_touserdata(L, ARGUMENT);
	push_list(L);
	for (int at = 1, size; at <= s->length; at += 2 + size) {
		lua_rawgeti(L, LIST, at + 1);
		size = (int)lua_tointeger(L, -1);
		lua_pop(L, 1);
		lua_rawgeti(L, LIST, at);
		if (lua_istable(L, -1))
			restore_table(L, at + 2, size);
		else
			restore_upvalues(L, at + 2, size);
		lua_settop(L, LIST);
	}
	return 0;
}
