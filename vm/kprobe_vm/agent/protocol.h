/*
 * The protocol between the host and the agent, over one virtio-serial port, or over the second serial port (ttyS1) of a
 * kernel that makes no such port.  frames.py and line.py are the host's side of it.
 *
 * Frames, little endian, both ways: u32 payload length, u32 request id, u8 kind, payload.  A request's kind is an
 * operation (enum op); a reply's kind is an enum reply.  Every request but CREDIT ends with exactly one DONE reply, which
 * carries an s64 result (or minus the errno) and data.  Operations with output of unknown length (READ_FILE, READ_EACH,
 * LIST, STREAM, RUN) send DATA frames before it, as many bytes as the host has given credit for: an unread stream stops
 * its own source in the kernel and nothing else.
 *
 * Each request runs on a thread of its own (threads are reused), so a blocking read delays no other request.  CANCEL
 * interrupts the thread with a signal, so the system call itself returns EINTR.  The thread that reads the port answers
 * requests that can't block.  A frame longer than FRAME_CAP, or of an unknown kind, closes the port for good.
 *
 * LOOK (u32 id of a STREAM) asks whether the kernel has more for a stream now.  The stream's own thread answers it, so
 * all data that the stream read before the answer is also sent before it.  The thread reads once without waiting; the
 * result is 1 after the DATA of that read, 0 if the kernel had nothing, and -ESRCH if there is no such stream or it is
 * ending.  If two looks wait for one stream, the first is answered -EBUSY.  A look is answered only when the data before
 * it is sent, so a host that waits for one must go on giving the stream credit.  A look can't be cancelled.
 *
 * INPUT (u32 id of a RUN that asked for a pipe, then bytes; no bytes: the end of the input) writes to the standard input
 * of a program, and is done once the pipe has taken all of it.  A RUN ends with its program: the agent sends what that
 * has written by then.  Processes that the program left behind may keep its output open for as long as they like.
 *
 * On a serial port all this travels in packets: u8 0x4b, u8 kind, u16 length, u32 CRC-32 (zlib's) of kind, length and
 * payload, then at most LINE_MOST bytes of payload.  A tty drops input while its buffer of 4096 bytes is full, so the
 * host sends a packet of DATA only after an ACK for the last one.  A damaged packet ends the line: a BAD packet tells
 * the host so, in words.
 */
#ifndef PROTOCOL_H
#define PROTOCOL_H

#include <stdint.h>

#define PROTOCOL 4
#define FRAME_CAP (1u << 20)
#define HEADER 9
#define WINDOW (256 * 1024)
#define PORT_NAME "kprobe.agent"
#define LINE_MAGIC 0x4b
#define LINE_HEAD 8
#define LINE_MOST 2048

enum op {
	OP_PING = 1, OP_OPEN, OP_CLOSE, OP_READ, OP_WRITE, OP_LSEEK, OP_POLL, OP_LIST, OP_STAT, OP_MKDIR, OP_RMDIR,
	OP_TRUNCATE, OP_UNLINK, OP_WRITE_FILE, OP_READ_FILE, OP_STREAM, OP_RUN, OP_KILL, OP_CANCEL, OP_CREDIT,
	OP_SET_CLOCK, OP_READ_EACH, OP_LOOK, OP_INPUT, OP_LAST = OP_INPUT,
};
enum reply { REPLY_DONE = 0, REPLY_DATA = 1, REPLY_HELLO = 2 };
enum packet { LINE_DATA = 1, LINE_ACK = 2, LINE_BAD = 3 };
enum data { DATA_STARTED = 0, DATA_OUT = 1, DATA_ERR = 2 };

#endif
