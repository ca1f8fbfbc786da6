// Package simulate says what events would lead to, on a copy of a landscape: the worker
// itself handles them, on package memory, and nothing is written anywhere else. Events are
// handled one after the other, and the requests that wait are served between them.
//
// The clock stands still, so no deadline comes. There are no Shoots: an account that its
// last cluster leaves is marked dirty at once. Labels are written at the first attempt.
package simulate
