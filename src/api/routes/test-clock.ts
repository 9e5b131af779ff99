// Routes of the test clock: the clock of a tenant in test mode.
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { AppError } from '#core/errors.ts'
import { dateTime } from '#core/time.ts'
import {
  advanceTestClock,
  findTestClock,
  MAX_CLOCK_DAYS_AHEAD,
  testClockSchema,
} from '#domain/test-clocks/test-clock.ts'
import type { RouteApp, RouteContext } from '../context.ts'
import { route } from '../route.ts'

const PATH = '/v1/test_clock'
const ADVANCE_TO = '2027-06-01T10:15:30.123456Z'
const DEFINITION = { area: null, tag: 'test_clock' } as const

const advanceBody = z
  .strictObject({
    advance_to: dateTime.meta({
      description: `The time to which the clock moves: later than \`now\` of the clock, and at most ${MAX_CLOCK_DAYS_AHEAD} days ahead of the real time.`,
      example: ADVANCE_TO,
    }),
  })
  .meta({ id: 'AdvanceTestClock', description: 'The time to which the clock moves.' })

export function testClockRoutes(app: RouteApp, { sql }: RouteContext): void {
  app.get(
    PATH,
    route({
      ...DEFINITION,
      scope: 'payments:read',
      operation_id: 'getTestClock',
      summary: 'Retrieve the test clock',
      description:
        'Only with a key of test mode. While the clock is `advancing`, `now` passes from one deadline to the next. At each it waits until what was due has run, at most 30 seconds; once it is `ready`, it has arrived.',
      response: { 200: testClockSchema },
      examples: { answer: { livemode: false } },
      errors: ['test_mode_only'],
    }),
    async (request) => {
      requireTestMode(request)
      return await findTestClock(sql, request.credentials.tenant_id)
    },
  )

  app.post(
    PATH,
    route({
      ...DEFINITION,
      scope: 'payments:write',
      operation_id: 'advanceTestClock',
      summary: 'Move the test clock forward',
      description:
        'Only with a key of test mode. Holds expire, scheduled messages are sent, retries of deliveries and of jobs come due, and verifications whose person did nothing are rejected, in the order of their deadlines and with their events. What is stored keeps the real time, such as `created_at`, and so does what expires for security. The clock never goes back. The same request may be repeated until the clock has arrived.',
      body: advanceBody,
      response: { 202: testClockSchema },
      examples: {
        requests: { month: { summary: 'Move to a time', value: { advance_to: ADVANCE_TO } } },
        unfinished: {
          now: '2027-05-02T10:15:30.123456Z',
          advance_to: ADVANCE_TO,
          status: 'advancing',
          remaining: null,
          livemode: false,
        },
      },
      errors: ['test_mode_only', 'test_clock_ahead'],
    }),
    async (request, reply) => {
      requireTestMode(request)
      const clock = await advanceTestClock(sql, request.credentials.tenant_id, request.body.advance_to)
      reply.code(202).header('location', PATH)
      return clock
    },
  )
}

function requireTestMode({ credentials }: FastifyRequest): void {
  if (!credentials.livemode) return
  throw new AppError('test_mode_only', {
    message: 'Only a tenant in test mode has a clock that moves: use a key of test mode, sk_test_...',
  })
}
