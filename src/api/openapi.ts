// What the OpenAPI document says besides its routes.
import { AREAS, areaStates } from '#core/areas.ts'
import type { Config } from '#core/config.ts'
import { ERRORS } from '#core/errors.ts'
import { SCOPES } from '#domain/api-keys.ts'

const INTRODUCTION = `
Sluice takes customers, payments and refunds over a thin HTTP API; every piece of work becomes a durable job.

**Money** is an integer in the currency's smallest unit. **Timestamps** are ISO 8601 in UTC with microseconds. **Lists** are bare
arrays, newest first; the next page starts \`before\` the \`created_at\` of the last item, and a full page links to it.

**Idempotency.** Every create takes an \`idempotency_key\` (or the header \`Idempotency-Key\`). Repeating it with the same content
answers what became of the first request, with \`Idempotent-Replayed: true\`; with other content it is refused. A refusal decided
before anything was written is not remembered.

**Waiting.** Routes that need the processor wait for it: 10 s, \`Prefer: wait=N\` (0 to 30) or \`Prefer: respond-async\`. What is not
finished by then answers 202 with the resource as it stands; the work goes on.
`

const ERROR_SHAPE =
  'An error is `{ "error": { code, message, param?, details?, context?, request_id, doc_url } }`; each code has one status:'

/** The document's own part: title, introduction, authentication, the error catalogue. */
export function openapi(config: Config) {
  const rows = Object.entries(ERRORS).map(
    ([code, [status, message]]) => `- **${status}** \`${code}\`: ${message}`,
  )
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sluice API',
      version: '1.0.0',
      description: `${INTRODUCTION}\n## Errors\n\n${ERROR_SHAPE}\n\n${rows.join('\n')}\n`,
    },
    ...(config.API_URL !== undefined && { servers: [{ url: config.API_URL }] }),
    tags: [
      ...areaStates([]).deployed.map((area) => ({ name: area, description: AREAS[area].about })),
      { name: 'general', description: 'What concerns all areas.' },
    ],
    components: {
      securitySchemes: {
        api_key: {
          type: 'http' as const,
          scheme: 'bearer',
          description: `\`Authorization: Bearer sk_live_<tenant>_<random32>\`. Scopes: ${SCOPES.map((scope) => `\`${scope}\``).join(', ')}.`,
        },
      },
    },
  }
}
