// The mode of a page, live or test. Each request of a page of test mode names it in a header.
import type { FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import { MODES, type Mode } from '#domain/modes.ts'

const MODE_HEADER = 'x-sluice-mode'

/** The mode of a request. Without the header: live. Throws `invalid_request` for another value. */
export function requestedMode({ headers }: FastifyRequest): Mode {
  const value = headers[MODE_HEADER] ?? 'live'
  const mode = MODES.find((each) => each === value)
  if (mode !== undefined) return mode
  throw new AppError('invalid_request', {
    param: MODE_HEADER,
    message: `The header ${MODE_HEADER} must be live or test.`,
  })
}
