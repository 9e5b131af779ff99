// The worker thread of `validation.ts`: validates one answer against one schema and exits.
import { parentPort, workerData } from 'node:worker_threads'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { threadStart } from '#core/thread-work.ts'
import type { ValidationInput, ValidationMessage } from './validation.ts'

// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
const post = (message: ValidationMessage): void => parentPort?.postMessage(message)

post(threadStart())
const { schema, data } = workerData as ValidationInput
post({ violation: violationOf(schema, data) })

function violationOf(schema_text: string, data_text: string): string | null {
  // Every schema is treated as draft 2020-12, whatever its `$schema` says.
  const { $schema: _dialect, ...schema } = JSON.parse(schema_text) as Record<string, unknown>
  const ajv = new Ajv2020({ strict: false, validateFormats: false, ownProperties: true, logger: false })
  try {
    const validate = ajv.compile(schema)
    if (validate(JSON.parse(data_text))) return null
    // Names only the keyword: the path or the value may be personal data.
    return `The answer does not validate against the schema: ${validate.errors?.[0]?.keyword ?? 'it'} fails.`
  } catch {
    return 'The schema cannot be used.'
  }
}
