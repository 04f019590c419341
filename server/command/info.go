package command

// RedisVersion is the version of Redis whose behaviour this is, for clients that ask.
const RedisVersion = "7.2.0"
