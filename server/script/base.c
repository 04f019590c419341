// The basic functions that differ from Lua's own: they respect protected tables, load no bytecode, and can't catch the end of a run.
#include "interpreter.h"

#include <limits.h>
#include <string.h>

static int refuse_protected(lua_State *L, int index) {
	return reveal(L, index) ? fail(L, "Attempt to modify a readonly table") : 0;
}

static int base_next(lua_State *L) {
	luaL_checktype(L, 1, LUA_TTABLE);
	reveal(L, 1);
	lua_settop(L, 2);
	if (lua_next(L, 1))
		return 2;
	lua_pushnil(L);
	return 1;
}

static int base_pairs(lua_State *L) {
	luaL_checktype(L, 1, LUA_TTABLE);
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_pushvalue(L, 1);
	lua_pushnil(L);
	return 3;
}

static int base_rawget(lua_State *L) {
	luaL_checktype(L, 1, LUA_TTABLE);
	luaL_checkany(L, 2);
	lua_settop(L, 2);
	reveal(L, 1);
	lua_rawget(L, 1);
	return 1;
}

static int base_rawset(lua_State *L) {
	luaL_checktype(L, 1, LUA_TTABLE);
	luaL_checkany(L, 2);
	luaL_checkany(L, 3);
	lua_settop(L, 3);
	refuse_protected(L, 1);
	lua_rawset(L, 1);
	return 1;
}

// The metatable that all strings share is shown through a protected one.
static int base_getmetatable(lua_State *L) {
	luaL_checkany(L, 1);
	int was = reveal(L, 1);
	if (!lua_getmetatable(L, 1)) {
		lua_pushnil(L);
		return 1;
	}
	if (luaL_getmetafield(L, 1, "__metatable"))
		return 1;
	if (was || lua_type(L, 1) == LUA_TSTRING)
		protect(L);
	return 1;
}

static int base_setmetatable(lua_State *L) {
	int type = lua_type(L, 2);
	luaL_checktype(L, 1, LUA_TTABLE);
	luaL_argcheck(L, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table expected");
	refuse_protected(L, 1);
	if (luaL_getmetafield(L, 1, "__metatable"))
		return luaL_error(L, "cannot change a protected metatable");
	lua_settop(L, 2);
	lua_setmetatable(L, 1); // a protected table is an empty one here: it must not lead to what it stands for
	return 1;
}

// An error of the server is a table; what catches it gets its text, as in Redis.
static int base_pcall(lua_State *L) {
	if (lua_gettop(L) == 0) {
		lua_pushboolean(L, 0);
		return 1;
	}
	int failed = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
	end_if_ending(L);
	if (failed && lua_istable(L, -1)) {
		lua_getfield(L, -1, "err");
		if (lua_isstring(L, -1))
			lua_replace(L, -2);
	}
	lua_pushboolean(L, !failed);
	lua_insert(L, 1);
	return lua_gettop(L);
}

// A run that is to end is ended from a hook, and there no other one is called: a handler of the script would run for ever.
static int handle_error(lua_State *L) {
	if (interpreter_of(L)->ending)
		return 1;
	lua_settop(L, 1);
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	lua_call(L, 1, 1);
	return 1;
}

static int base_xpcall(lua_State *L) {
	luaL_checkany(L, 2);
	lua_settop(L, 2);
	lua_pushcclosure(L, handle_error, 1);
	lua_insert(L, 1);
	int failed = lua_pcall(L, 0, LUA_MULTRET, 1);
	end_if_ending(L);
	lua_pushboolean(L, !failed);
	lua_replace(L, 1);
	return lua_gettop(L);
}

// base_resume is coroutine.resume, which is the upvalue.
static int base_resume(lua_State *L) {
	luaL_argcheck(L, lua_isthread(L, 1), 1, "coroutine expected");
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
	end_if_ending(L);
	return lua_gettop(L);
}

// load_text compiles a text, or returns nil and why it can't.
static int load_text(lua_State *L, const char *text, size_t length, const char *name) {
	if (!parse_text(L, text, length, name))
		return 1;
	end_if_ending(L);
	lua_pushnil(L);
	lua_insert(L, -2);
	return 2;
}

static int base_loadstring(lua_State *L) {
	size_t length;
	const char *text = luaL_checklstring(L, 1, &length);
	return load_text(L, text, length, luaL_optstring(L, 2, text));
}

// base_load gathers the pieces first: so the parser never calls the script.
static int base_load(lua_State *L) {
	luaL_checktype(L, 1, LUA_TFUNCTION);
	const char *name = luaL_optstring(L, 2, "=(load)");
	lua_settop(L, 2);
	luaL_Buffer text;
	luaL_buffinit(L, &text);
	for (unsigned steps = 1;; steps++) {
		if (steps % STEPS_PER_POLL == 0)
			poll_run(L);
		lua_pushvalue(L, 1);
		if (lua_pcall(L, 0, 1, 0) != 0) {
			end_if_ending(L);
			lua_pushnil(L);
			lua_insert(L, -2);
			return 2;
		}
		size_t length;
		const char *piece = lua_tolstring(L, -1, &length);
		if (lua_isnil(L, -1) || (piece != NULL && length == 0))
			break;
		if (piece == NULL)
			return luaL_error(L, "reader function must return a string");
		luaL_addvalue(&text);
	}
	lua_pop(L, 1);
	luaL_pushresult(&text);
	size_t length;
	const char *whole = lua_tolstring(L, -1, &length);
	return load_text(L, whole, length, name);
}

// Scripts may look at the collector and have it collect, but not change how it works for others.
static int base_collectgarbage(lua_State *L) {
	static const char *const names[] = {"stop", "restart", "collect", "count", "step", "setpause", "setstepmul", NULL};
	static const int kinds[] = {LUA_GCSTOP, LUA_GCRESTART, LUA_GCCOLLECT, LUA_GCCOUNT, LUA_GCSTEP, LUA_GCSETPAUSE, LUA_GCSETSTEPMUL};
	int kind = kinds[luaL_checkoption(L, 1, "collect", names)];
	int size = luaL_optint(L, 2, 0);
	switch (kind) {
	case LUA_GCCOUNT:
		lua_pushnumber(L, lua_gc(L, LUA_GCCOUNT, 0) + lua_gc(L, LUA_GCCOUNTB, 0) / 1024.0);
		return 1;
	case LUA_GCSTEP:
		lua_pushboolean(L, lua_gc(L, LUA_GCSTEP, size));
		poll_run(L);
		return 1;
	case LUA_GCCOLLECT:
		lua_pushnumber(L, lua_gc(L, LUA_GCCOLLECT, 0));
		poll_run(L); // it has visited all that there is
		return 1;
	case LUA_GCSETPAUSE:
	case LUA_GCSETSTEPMUL:
		lua_pushnumber(L, 200); // what both are
		return 1;
	}
	lua_pushnumber(L, 0);
	return 1;
}

static int base_unpack(lua_State *L) {
	luaL_checktype(L, 1, LUA_TTABLE);
	long long first = luaL_optint(L, 2, 1);
	long long last = lua_isnoneornil(L, 3) ? (long long)lua_objlen(L, 1) : luaL_checkint(L, 3);
	if (first > last)
		return 0;
	long long count = last - first + 1;
	if (count >= INT_MAX || !lua_checkstack(L, (int)count))
		return luaL_error(L, "too many results to unpack");
	for (long long i = first; i <= last; i++)
		lua_rawgeti(L, 1, (int)i);
	return (int)count;
}

void open_base(lua_State *L) {
	static const luaL_Reg functions[] = {{"next", base_next}, {"rawget", base_rawget}, {"rawset", base_rawset},
		{"getmetatable", base_getmetatable}, {"setmetatable", base_setmetatable}, {"pcall", base_pcall}, {"xpcall", base_xpcall},
		{"loadstring", base_loadstring}, {"load", base_load}, {"collectgarbage", base_collectgarbage}, {"unpack", base_unpack}, {NULL, NULL}};
	lua_pushvalue(L, LUA_GLOBALSINDEX);
	for (const luaL_Reg *f = functions; f->name != NULL; f++) {
		lua_pushcfunction(L, f->func);
		lua_setfield(L, -2, f->name);
	}
	lua_getfield(L, -1, "next");
	lua_pushcclosure(L, base_pairs, 1);
	lua_setfield(L, -2, "pairs");
	lua_getfield(L, -1, "coroutine");
	lua_getfield(L, -1, "resume");
	lua_pushcclosure(L, base_resume, 1);
	lua_setfield(L, -2, "resume");
	lua_pop(L, 2);
}
