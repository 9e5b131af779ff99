// The schema of an error, and the path that explains its code.
import { z } from 'zod'
import { ERRORS, type ErrorCode } from '#core/errors.ts'

/** The body of an error. */
export const errorBody = z
  .object({
    code: z.enum(Object.keys(ERRORS) as [ErrorCode, ...ErrorCode[]]).meta({
      id: 'ErrorCode',
      description: 'The error code. New codes may be added: handle an unknown code by its status.',
      example: 'invalid_request',
    }),
    message: z.string().meta({
      description: 'A description for people. Its wording may change.',
      example: 'amount_minor: must be more than 0',
    }),
    param: z
      .string()
      .optional()
      .meta({ description: 'The invalid field, parameter or header.', example: 'amount_minor' }),
    details: z
      .array(
        z
          .object({
            param: z.string().meta({ description: 'The field or parameter.', example: 'amount_minor' }),
            message: z.string().meta({ description: 'The problem.', example: 'must be more than 0' }),
          })
          .meta({ id: 'ErrorDetail', description: 'One invalid field.' }),
      )
      .optional()
      .meta({ description: 'All invalid fields, in errors that can report several.' }),
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
      description: 'A link to the explanation of this error.',
      example: 'https://api.example.com/docs/guides/errors#invalid_request',
    }),
  })
  .meta({ id: 'ErrorBody', description: 'The error and a link to its explanation.' })

/** The schema of every error answer. */
export const errorSchema = z
  .object({ error: errorBody })
  .meta({ id: 'ErrorAnswer', description: 'A refusal or failure.' })

/** The path on this host that explains a code. */
export function docPath(code: ErrorCode): string {
  return `/docs/guides/errors#${code}`
}

/** An example error for each code, as components. */
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
