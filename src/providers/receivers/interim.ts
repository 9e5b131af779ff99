// Replaces unrequested `100 Continue` responses by 102, because undici closes the connection after a 100 but accepts
// other 1xx statuses.

const ZERO = 0x30
const ONE = 0x31
const TWO = 0x32
const LINE_FEED = 0x0a
const CARRIAGE_RETURN = 0x0d
/** The offset of the status in `HTTP/1.1 100`. */
const STATUS_AT = 9
const STATUS_DIGITS = 3

/** Processes the bytes that one connection receives. */
export type InterimFilter = {
  /** Call when a new request was sent. */
  restart(): void
  /** Replaces `100` by `102` in the status lines before the final response, in place. */
  pass(bytes: Buffer): void
}

/** A filter for one connection. */
export function createInterimFilter(): InterimFilter {
  /**
   * Where the next byte is: in a status line, in the headers of a 1xx response, or in the final response, which is not
   * inspected.
   */
  let state: 'status' | 'headers' | 'answer' = 'status'
  let at = 0
  let status = ''
  let line_length = 0

  function inStatus(bytes: Buffer, index: number): void {
    const byte = bytes[index]!
    // Skips empty lines before a status line, as undici's parser does.
    if (at === 0 && (byte === LINE_FEED || byte === CARRIAGE_RETURN)) return
    if (at >= STATUS_AT) status += String.fromCharCode(byte)
    at += 1
    if (at === STATUS_AT + 1 && byte !== ONE) state = 'answer'
    if (status.length < STATUS_DIGITS) return
    if (status === '100' && byte === ZERO) bytes[index] = TWO
    state = 'headers'
    line_length = at
  }

  function inHeaders(byte: number): void {
    if (byte === CARRIAGE_RETURN) return
    if (byte !== LINE_FEED) line_length += 1
    else if (line_length > 0) line_length = 0
    else begin()
  }

  function begin(): void {
    state = 'status'
    at = 0
    status = ''
  }

  return {
    restart: begin,
    pass(bytes) {
      for (let index = 0; index < bytes.length && state !== 'answer'; index++)
        if (state === 'status') inStatus(bytes, index)
        else inHeaders(bytes[index]!)
    },
  }
}
