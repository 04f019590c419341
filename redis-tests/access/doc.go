// Package access holds who may do what against redis-server: rules made by chance, what they allow
// for every command and for words made by chance (ACL DRYRUN), files of users, and users whose
// rules change while their clients run.
//
// It imports the standard library and its neighbours in redis-tests, nothing of Kedis.
package access
