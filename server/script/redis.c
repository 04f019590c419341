// The table redis.
#include "interpreter.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "_cgo_export.h"

// push_error pushes the table that an error of the server is; ERR is put before a text without a code of its own.
static void push_error(lua_State *L, const char *text) {
	lua_createtable(L, 0, 1);
	lua_pushstring(L, text);
	lua_setfield(L, -2, "err");
}

static int raise(lua_State *L, const char *text) {
	push_error(L, text);
	return lua_error(L);
}

// add_number writes a number as a word of a request: with all its digits.
static void add_number(lua_State *L, struct bytes *b, lua_Number n) {
	char text[64];
	int length;
	if (n >= -9007199254740992.0 && n <= 9007199254740992.0 && n == floor(n) && !(n == 0 && signbit(n)))
		length = snprintf(text, sizeof text, "%lld", (long long)n);
	else
		length = snprintf(text, sizeof text, "%.17g", n);
	uint32_t size = (uint32_t)length;
	add(L, b, &size, sizeof size);
	add(L, b, text, size);
}

// add_words writes the parameters of redis.call as the words of a request, each behind its length. NULL, or what is wrong.
static const char *add_words(lua_State *L, struct bytes *b) {
	int count = lua_gettop(L);
	b->length = 0;
	if (count == 0)
		return "ERR Please specify at least one argument for this redis lib call";
	for (int i = 1; i <= count; i++) {
		if (lua_type(L, i) == LUA_TNUMBER) {
			add_number(L, b, lua_tonumber(L, i));
			continue;
		}
		if (lua_type(L, i) != LUA_TSTRING)
			return "ERR Lua redis lib command arguments must be strings or integers";
		size_t length;
		const char *text = lua_tolstring(L, i, &length);
		uint32_t size = (uint32_t)length;
		note_bytes(L, length);
		add(L, b, &size, sizeof size);
		add(L, b, text, length);
	}
	return NULL;
}

static int call(lua_State *L, int raises) {
	struct interpreter *in = interpreter_of(L);
	end_if_ending(L);
	if (atomic_load_explicit(&in->kill, memory_order_relaxed))
		poll_run(L); // a call may take long, and a loop of them has few instructions
	const char *wrong = add_words(L, &in->output);
	if (wrong != NULL) {
		push_error(L, wrong);
		return raises ? lua_error(L) : 1;
	}
	if (!scriptCall(in->handle, in->output.data, in->output.length, lua_gettop(L)))
		in->ending = END_TAKEN_BACK;
	end_if_ending(L); // or there was no memory for the reply, since it is to end
	if (in->input.length == 0) // nor for saying so
		return luaL_error(L, "not enough memory");
	lua_settop(L, 0);
	push_reply(L, in->input.data, in->input.length);
	if (raises && in->input.data[0] == '-')
		return lua_error(L);
	return 1;
}

static int redis_call(lua_State *L) { return call(L, 1); }
static int redis_pcall(lua_State *L) { return call(L, 0); }

static int single_field(lua_State *L, const char *name) {
	if (lua_gettop(L) != 1 || lua_type(L, 1) != LUA_TSTRING) {
		push_error(L, "ERR wrong number or type of arguments");
		return 1;
	}
	lua_createtable(L, 0, 1);
	lua_pushvalue(L, 1);
	lua_setfield(L, -2, name);
	return 1;
}

static int ends_line(char c) { return c == '\r' || c == '\n'; }

// push_coded pushes a text as Redis has an error: its code, or ERR if nothing but the message is there, and the message, without the line
// ends around it.
static void push_coded(lua_State *L, const char *text) {
	text += text[0] == '-';
	const char *space = strchr(text, ' ');
	const char *begin = space == NULL ? text : space + 1, *end = begin + strlen(begin);
	while (begin < end && ends_line(*begin))
		begin++;
	while (begin < end && ends_line(end[-1]))
		end--;
	if (space == NULL)
		lua_pushliteral(L, "ERR");
	else
		lua_pushlstring(L, text, (size_t)(space - text));
	lua_pushliteral(L, " ");
	lua_pushlstring(L, begin, (size_t)(end - begin));
	lua_concat(L, 3);
}

static int redis_error_reply(lua_State *L) {
	if (lua_gettop(L) == 1 && lua_type(L, 1) == LUA_TSTRING) {
		push_coded(L, lua_tostring(L, 1));
		lua_replace(L, 1);
	}
	return single_field(L, "err");
}

static int redis_status_reply(lua_State *L) { return single_field(L, "ok"); }

static int redis_sha1hex(lua_State *L) {
	if (lua_gettop(L) != 1)
		return raise(L, "ERR wrong number of arguments");
	size_t length;
	const char *text = lua_tolstring(L, 1, &length); // of what isn't a text the length is 0
	note_bytes(L, length);
	char hex[40];
	scriptSHA1((char *)text, length, hex);
	lua_pushlstring(L, hex, sizeof hex);
	return 1;
}

static int redis_log(lua_State *L) {
	struct interpreter *in = interpreter_of(L);
	int count = lua_gettop(L);
	if (count < 2)
		return raise(L, "ERR redis.log() requires two arguments or more.");
	if (!lua_isnumber(L, -count))
		return raise(L, "ERR First argument must be a number (log level).");
	int level = (int)lua_tonumber(L, -count);
	if (level < 0 || level > 3)
		return raise(L, "ERR Invalid debug level.");
	in->output.length = 0;
	for (int i = 2; i <= count; i++) {
		size_t length;
		const char *text = lua_tolstring(L, i, &length);
		if (text == NULL)
			continue;
		note_bytes(L, length);
		if (in->output.length > 0)
			add(L, &in->output, " ", 1);
		add(L, &in->output, text, length);
	}
	scriptLog(in->handle, level, in->output.data, in->output.length);
	end_if_ending(L);
	return 0;
}

static int redis_setresp(lua_State *L) {
	if (lua_gettop(L) != 1)
		return raise(L, "ERR redis.setresp() requires one argument.");
	int protocol = (int)lua_tonumber(L, 1);
	if (protocol != 2 && protocol != 3)
		return raise(L, "ERR RESP version must be 2 or 3.");
	interpreter_of(L)->protocol = protocol;
	return 0;
}

// The log is what makes writes durable, so redis.set_repl changes nothing.
static int redis_set_repl(lua_State *L) {
	if (lua_gettop(L) != 1)
		return raise(L, "ERR redis.set_repl() requires two arguments.");
	int flags = (int)lua_tonumber(L, 1);
	if ((flags & ~3) != 0)
		return raise(L, "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.");
	return 0;
}

static int redis_replicate_commands(lua_State *L) {
	lua_pushboolean(L, 1);
	return 1;
}

static int redis_breakpoint(lua_State *L) {
	lua_pushboolean(L, 0);
	return 1;
}

static int redis_debug(lua_State *L) {
	(void)L;
	return 0;
}

static int redis_acl_check_cmd(lua_State *L) {
	struct interpreter *in = interpreter_of(L);
	const char *wrong = add_words(L, &in->output);
	if (wrong != NULL)
		return raise(L, wrong);
	int may = scriptMay(in->handle, in->output.data, in->output.length, lua_gettop(L));
	end_if_ending(L);
	if (may < 0)
		return raise(L, "ERR Invalid command passed to redis.acl_check_cmd()");
	lua_pushboolean(L, may);
	return 1;
}

static void set_number(lua_State *L, const char *name, int value) {
	lua_pushinteger(L, value);
	lua_setfield(L, -2, name);
}

void open_redis(lua_State *L) {
	static const luaL_Reg functions[] = {{"call", redis_call}, {"pcall", redis_pcall}, {"error_reply", redis_error_reply},
		{"status_reply", redis_status_reply}, {"sha1hex", redis_sha1hex}, {"log", redis_log}, {"setresp", redis_setresp},
		{"set_repl", redis_set_repl}, {"replicate_commands", redis_replicate_commands}, {"breakpoint", redis_breakpoint},
		{"debug", redis_debug}, {"acl_check_cmd", redis_acl_check_cmd}, {NULL, NULL}};
	struct interpreter *in = interpreter_of(L);
	lua_newtable(L);
	luaL_register(L, NULL, functions);
	set_number(L, "LOG_DEBUG", 0);
	set_number(L, "LOG_VERBOSE", 1);
	set_number(L, "LOG_NOTICE", 2);
	set_number(L, "LOG_WARNING", 3);
	set_number(L, "REPL_NONE", 0);
	set_number(L, "REPL_AOF", 1);
	set_number(L, "REPL_SLAVE", 2);
	set_number(L, "REPL_REPLICA", 2);
	set_number(L, "REPL_ALL", 3);
	lua_pushstring(L, in->version);
	lua_setfield(L, -2, "REDIS_VERSION");
	set_number(L, "REDIS_VERSION_NUM", in->number);
	lua_setglobal(L, "redis");
}
