// Package agent owns the embedded Python agent, how a command is started with it, and the client side of its control
// socket.
package agent
