// Libraries of functions: what their source may do while it is loaded, and what it registers.
#include "interpreter.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char loading_key; // names that the library which is loaded has registered

static int refuse(lua_State *L, const char *text) {
	lua_createtable(L, 0, 1);
	lua_pushstring(L, text);
	lua_setfield(L, -2, "err");
	return lua_error(L);
}

// The flags of functions, in the order of their bits.
static const char *const flag_names[] = {"no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys", NULL};

static int read_flags(lua_State *L, uint32_t *flags) {
	for (int i = 1;; i++, lua_pop(L, 1)) {
		lua_rawgeti(L, -1, i);
		if (lua_isnil(L, -1))
			break;
		const char *text = lua_isstring(L, -1) ? lua_tostring(L, -1) : "";
		int bit = 0;
		while (flag_names[bit] != NULL && strcasecmp(flag_names[bit], text) != 0)
			bit++;
		if (flag_names[bit] == NULL)
			return 0;
		*flags |= 1u << bit;
	}
	lua_pop(L, 1);
	return 1;
}

// registration is what redis.register_function is told. Its values stand on the stack at these places; 0: it wasn't told.
struct registration {
	int name, description, callback;
	uint32_t flags;
};

// read_argument takes the named argument whose key and value are on top of the stack, which stays as it is.
static void read_argument(lua_State *L, struct registration *r, int free) {
	if (!lua_isstring(L, -2))
		refuse(L, "ERR named argument key given to redis.register_function is not a string");
	lua_pushvalue(L, -2); // lua_tostring changes numbers
	const char *key = lua_tostring(L, -1);
	int *place = NULL;
	if (strcasecmp(key, "function_name") == 0) {
		if (!lua_isstring(L, -2))
			refuse(L, "ERR function_name argument given to redis.register_function must be a string");
		r->name = free, place = &r->name;
	} else if (strcasecmp(key, "description") == 0) {
		if (!lua_isstring(L, -2))
			refuse(L, "ERR description argument given to redis.register_function must be a string");
		r->description = free + 1, place = &r->description;
	} else if (strcasecmp(key, "callback") == 0) {
		if (!lua_isfunction(L, -2))
			refuse(L, "ERR callback argument given to redis.register_function must be a function");
		r->callback = free + 2, place = &r->callback;
	} else if (strcasecmp(key, "flags") == 0) {
		if (!lua_istable(L, -2))
			refuse(L, "ERR flags argument to redis.register_function must be a table representing function flags");
		lua_pushvalue(L, -2);
		if (!read_flags(L, &r->flags))
			refuse(L, "ERR unknown flag given");
		lua_pop(L, 1);
	} else {
		refuse(L, "ERR unknown argument given to redis.register_function");
	}
	lua_pop(L, 1);
	if (place != NULL) {
		lua_pushvalue(L, -1);
		lua_replace(L, *place);
	}
}

static void read_named(lua_State *L, struct registration *r) {
	int free = lua_gettop(L) + 1;
	lua_settop(L, free + 2);
	for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1))
		read_argument(L, r, free);
	if (r->name == 0)
		refuse(L, "ERR redis.register_function must get a function name argument");
	if (r->callback == 0)
		refuse(L, "ERR redis.register_function must get a callback argument");
}

static void read_registration(lua_State *L, struct registration *r) {
	switch (lua_gettop(L)) {
	case 1:
		if (!lua_istable(L, 1))
			refuse(L, "ERR calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).");
		read_named(L, r);
		return;
	case 2:
		if (!lua_isstring(L, 1))
			refuse(L, "ERR first argument to redis.register_function must be a string");
		if (!lua_isfunction(L, 2))
			refuse(L, "ERR second argument to redis.register_function must be a function");
		r->name = 1;
		r->callback = 2;
		return;
	}
	refuse(L, "ERR wrong number of arguments to redis.register_function");
}

static int valid_name(const char *name, size_t length) {
	for (size_t i = 0; i < length; i++)
		if (name[i] != '_' && !isalnum((unsigned char)name[i]))
			return 0;
	return length > 0;
}

static void add_word(lua_State *L, struct bytes *b, const char *text, size_t length) {
	uint32_t size = (uint32_t)length;
	add(L, b, &size, sizeof size);
	add(L, b, text, length);
}

// redis_register_function notes a function, for who loads the library, as the words
//
//	name, description, flags:4 reference:4 described:1 stateful:1
static int redis_register_function(lua_State *L) {
	struct interpreter *in = interpreter_of(L);
	if (!in->loading)
		return refuse(L, "ERR redis.register_function can only be called on FUNCTION LOAD command");
	struct registration r = {0};
	read_registration(L, &r);
	size_t length, described = 0;
	const char *name = lua_tolstring(L, r.name, &length);
	const char *description = r.description == 0 ? "" : lua_tolstring(L, r.description, &described);
	if (!valid_name(name, length))
		return refuse(L, "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long");
	lua_pushlightuserdata(L, (void *)&loading_key);
	lua_rawget(L, LUA_REGISTRYINDEX);
	lua_pushvalue(L, r.name);
	lua_rawget(L, -2);
	if (!lua_isnil(L, -1))
		return refuse(L, "ERR Function already exists in the library");
	lua_pop(L, 1);
	lua_pushvalue(L, r.name);
	lua_pushboolean(L, 1);
	lua_rawset(L, -3);
	if (!interpreter_reserve(in, &in->registered, length + described + 64))
		return luaL_error(L, "not enough memory");
	lua_pushvalue(L, r.callback);
	int32_t reference = luaL_ref(L, LUA_REGISTRYINDEX);
	char last[10];
	memcpy(last, &r.flags, 4);
	memcpy(last + 4, &reference, 4);
	last[8] = r.description != 0;
	last[9] = 0; // load looks when all are there
	add_word(L, &in->registered, name, length);
	add_word(L, &in->registered, description, described);
	add_word(L, &in->registered, last, sizeof last);
	return 0;
}

// choose_globals says what functions, and the source that defines them, see as globals.
void choose_globals(lua_State *L, int loading) {
	struct interpreter *in = interpreter_of(L);
	lua_rawgeti(L, LUA_REGISTRYINDEX, in->function_globals);
	lua_getmetatable(L, -1);
	lua_rawgeti(L, LUA_REGISTRYINDEX, loading ? in->loading_globals : in->running_globals);
	point_protected(L);
	lua_pop(L, 2);
}

// mark_stateful finds out which of the functions that were registered keep state from one run to the next.
static void mark_stateful(lua_State *L, struct interpreter *in) {
	char *at = in->registered.data, *end = at + in->registered.length;
	while (at < end) {
		uint32_t length;
		for (int word = 0; word < 2; word++) {
			memcpy(&length, at, sizeof length);
			at += sizeof length + length;
		}
		at += sizeof length;
		int32_t reference;
		memcpy(&reference, at + 4, sizeof reference);
		lua_rawgeti(L, LUA_REGISTRYINDEX, reference);
		at[9] = (char)keeps_state(L);
		at += 10;
	}
}

// load runs the source of a library, which a struct source has compiled.
int load_library(lua_State *L) {
	struct source *s = lua_touserdata(L, 1);
	struct interpreter *in = interpreter_of(L);
	lua_settop(L, 0);
	in->registered.length = 0;
	lua_pushlightuserdata(L, (void *)&loading_key);
	lua_newtable(L);
	lua_rawset(L, LUA_REGISTRYINDEX);
	lua_rawgeti(L, LUA_REGISTRYINDEX, s->reference);
	lua_rawgeti(L, LUA_REGISTRYINDEX, in->function_globals);
	lua_pushvalue(L, -1);
	lua_replace(L, LUA_GLOBALSINDEX);
	lua_setfenv(L, 1);
	choose_globals(L, 1);
	in->loading = 1;
	lua_call(L, 0, 0);
	mark_stateful(L, in);
	return 0;
}

void end_loading(struct interpreter *in) {
	lua_State *L = in->lua;
	in->loading = 0;
	choose_globals(L, 0);
	lua_pushlightuserdata(L, (void *)&loading_key);
	lua_pushboolean(L, 0); // the key stays, so that this takes no memory
	lua_rawset(L, LUA_REGISTRYINDEX);
}

static void copy_fields(lua_State *L, int from, int to) {
	for (lua_pushnil(L); lua_next(L, from); lua_pop(L, 1)) {
		lua_pushvalue(L, -2);
		lua_pushvalue(L, -2);
		lua_rawset(L, to);
	}
}

static void copy_named(lua_State *L, int from, int to, const char *const *names) {
	for (; *names != NULL; names++) {
		lua_getfield(L, from, *names);
		lua_setfield(L, to, *names);
	}
}

// open_functions makes the globals of functions. Those of scripts are on top of the stack, and what a name that they don't have refers to
// below them; the table redis isn't protected yet.
void open_functions(lua_State *L) {
	static const char *const when_loading[] = {"log", "LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING", "REDIS_VERSION", "REDIS_VERSION_NUM", NULL};
	static const char *const of_scripts[] = {"breakpoint", "debug", "replicate_commands", NULL};
	struct interpreter *in = interpreter_of(L);
	int globals = lua_gettop(L), unknown = globals - 1;
	lua_getfield(L, globals, "redis");
	int redis = lua_gettop(L);

	lua_newtable(L); // what functions see
	lua_newtable(L);
	copy_fields(L, redis, redis + 2);
	for (const char *const *name = of_scripts; *name != NULL; name++) {
		lua_pushnil(L);
		lua_setfield(L, redis + 2, *name);
	}
	copy_fields(L, globals, redis + 1);
	protect(L);
	lua_setfield(L, redis + 1, "redis");
	lua_pushvalue(L, unknown);
	lua_setmetatable(L, redis + 1);

	lua_newtable(L); // what a source sees while it is loaded
	lua_newtable(L);
	copy_named(L, redis, redis + 3, when_loading);
	lua_pushcfunction(L, redis_register_function);
	lua_setfield(L, redis + 3, "register_function");
	lua_pushvalue(L, unknown);
	lua_setmetatable(L, redis + 3);
	protect(L);
	lua_setfield(L, redis + 2, "redis");
	lua_pushvalue(L, unknown);
	lua_setmetatable(L, redis + 2);
	in->loading_globals = luaL_ref(L, LUA_REGISTRYINDEX);

	lua_pushvalue(L, redis + 1);
	protect(L);
	lua_pushvalue(L, -1);
	lua_setfield(L, redis + 1, "_G");
	in->function_globals = luaL_ref(L, LUA_REGISTRYINDEX);
	in->running_globals = luaL_ref(L, LUA_REGISTRYINDEX);
	lua_settop(L, globals);
	lua_pushlightuserdata(L, (void *)&loading_key);
	lua_pushboolean(L, 0);
	lua_rawset(L, LUA_REGISTRYINDEX);
}
