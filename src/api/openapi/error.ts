// The shape of an error, and where its code is explained.
import { z } from 'zod'
import { ERRORS, type ErrorCode } from '#core/errors.ts'

/** What is said of a refusal. */
export const errorBody = z
  .object({
    code: z.enum(Object.keys(ERRORS) as [ErrorCode, ...ErrorCode[]]).meta({
      id: 'ErrorCode',
      description:
        'What went wrong. New codes may be added: handle a code that you do not know by its status.',
      example: 'invalid_request',
    }),
    message: z.string().meta({
      description: 'A description for people. The wording may change.',
      example: 'amount_minor: must be more than 0',
    }),
    param: z
      .string()
      .optional()
      .meta({ description: 'The field, parameter or header at fault.', example: 'amount_minor' }),
    details: z
      .array(
        z
          .object({
            param: z.string().meta({ description: 'The field or parameter.', example: 'amount_minor' }),
            message: z
              .string()
              .meta({ description: 'What is wrong with it.', example: 'must be more than 0' }),
          })
          .meta({ id: 'ErrorDetail', description: 'One field at fault.' }),
      )
      .optional()
      .meta({ description: 'Every field at fault, if there may be several.' }),
    context: z
      .record(z.string(), z.unknown())
      .optional()
      .meta({
        description:
          'Facts about this error, such as `decline_code` and `payment_id` for `payment_declined`.',
        example: {
          payment_id: '0198f6f0-1234-7000-8000-123456789abc',
          decline_code: 'insufficient_funds',
        },
      }),
    request_id: z.string().meta({
      description: 'The id of the request, as in `x-request-id`.',
      example: '0198f6f0-5a1c-7c3e-9d50-3f6f1c9d7a10',
    }),
    doc_url: z.string().meta({
      description: 'A link to what to do about this error.',
      example: 'https://api.example.com/docs/guides/errors#invalid_request',
    }),
  })
  .meta({ id: 'ErrorBody', description: 'What went wrong, and where to read on.' })

/** What every refusal is answered with. */
export const errorSchema = z
  .object({ error: errorBody })
  .meta({ id: 'ErrorAnswer', description: 'A refusal or failure.' })

/** The path on this host of what to do about a code. */
export function docPath(code: ErrorCode): string {
  return `/docs/guides/errors#${code}`
}

/** An error of each of these codes, as components. */
export function errorExamples(codes: ErrorCode[], origin: string): Record<string, { value: unknown }> {
  const request_id = '0198f6f0-5a1c-7c3e-9d50-3f6f1c9d7a10'
  return Object.fromEntries(
    codes.map((code) => [
      code,
      {
        value: {
          error: { code, message: ERRORS[code][1], request_id, doc_url: `${origin}${docPath(code)}` },
        },
      },
    ]),
  )
}
