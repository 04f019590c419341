// math.random as Redis has it: each run begins with the same numbers, those of drand48.
#include "interpreter.h"

static const double range = 2147483647;

// next_random steps the generator of drand48, whose state has 48 bits, and returns the upper 31.
static int32_t next_random(struct interpreter *in) {
	in->random = (in->random * 0x5DEECE66D + 0xB) & 0xFFFFFFFFFFFF;
	return (int32_t)(in->random >> 17);
}

static int math_random(lua_State *L) {
	double r = (double)(next_random(interpreter_of(L)) % 2147483647) / range;
	double low = 1, high;
	switch (lua_gettop(L)) {
	case 0:
		lua_pushnumber(L, r);
		return 1;
	case 1:
		high = luaL_checkint(L, 1);
		luaL_argcheck(L, 1 <= high, 1, "interval is empty");
		break;
	case 2:
		low = luaL_checkint(L, 1);
		high = luaL_checkint(L, 2);
		luaL_argcheck(L, low <= high, 2, "interval is empty");
		break;
	default:
		return luaL_error(L, "wrong number of arguments");
	}
	double whole = r * (high - low + 1);
	lua_pushnumber(L, (double)(long long)whole + low);
	return 1;
}

static int math_randomseed(lua_State *L) {
	uint32_t seed = (uint32_t)luaL_checkint(L, 1);
	interpreter_of(L)->random = (uint64_t)seed << 16 | 0x330E;
	return 0;
}

void open_random(lua_State *L) {
	lua_getglobal(L, "math");
	lua_pushcfunction(L, math_random);
	lua_setfield(L, -2, "random");
	lua_pushcfunction(L, math_randomseed);
	lua_setfield(L, -2, "randomseed");
	lua_pop(L, 1);
}
