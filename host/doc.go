// Package host is the driver whose workspace is a directory of this machine, and
// the guard of its files that every driver over a local directory uses.
//
// [OpenRoot] holds a directory and gives it as a [Root]: files below that one
// descriptor, each name resolved once, and nothing outside it reached by whatever
// link, rename or mount. [New] makes a [Driver] of a Root and of commands that run
// on this machine. Those are confined by nothing: they can do what this process
// can. What they start ends with them where a keeper (package keeper) serves, and
// their process group does otherwise.
//
// Linux has the whole of it. Other Unix systems resolve names with os.Root and
// answer UNSUPPORTED where that has no way; elsewhere there is no driver here.
package host
