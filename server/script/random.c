// math.random as Redis has it, with the numbers of drand48. Each run has a seed of its own, so that no script can foresee another's numbers,
// nor set them.
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

// seed_random takes the next seed, as SplitMix64 does: Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014.
void seed_random(struct interpreter *in) {
	uint64_t z = in->seed += 0x9E3779B97F4A7C15;
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
	z = (z ^ z >> 27) * 0x94D049BB133111EB;
	in->random = (z ^ z >> 31) & 0xFFFFFFFFFFFF;
}

void open_random(lua_State *L) {
	lua_getglobal(L, "math");
	lua_pushcfunction(L, math_random);
	lua_setfield(L, -2, "random");
	lua_pushcfunction(L, math_randomseed);
	lua_setfield(L, -2, "randomseed");
	lua_pop(L, 1);
}
