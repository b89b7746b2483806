// Package detect judges memory: series of one memory at step ends, and what a census saw, go in; findings come out,
// each with its estimate, interval, evidence and doubts. Pure functions: the same input gives the same verdict, whoever
// asks and when. It never says more than the data carry: "undecided" is an answer, and says what is missing.
//
// How a series is judged, and the reason of every constant, stands in docs/detect.md.
package detect
