// `livemode`: says of each record, event and delivery whether it belongs to live or to test mode. It follows from the
// tenant, so no row and no stored event has it: it is added here to all answers, and to the schemas of answers and
// events.
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'

const livemodeField = z.boolean().meta({
  description: '`true` in live mode; `false` in [test mode](/docs/guides/test-mode), which moves no money.',
  example: true,
})

/** The schema of a value with `livemode`, and a function that adds the field to the value. */
type Marked = { schema: z.ZodType; mark: (value: unknown, livemode: boolean) => unknown }

/** Each schema is extended once, so that all routes and events share its component in the OpenAPI document. */
const known = new WeakMap<z.ZodType, Marked>()

/** The schema of a record, or of a list of records, with the field `livemode` in each record. */
export function withLivemode(schema: z.ZodType): z.ZodType {
  return markedOf(schema).schema
}

/** Adds `livemode` to the answers of all routes with a definition that are registered after this call. */
export function addLivemode(app: FastifyInstance): void {
  app.addHook('onRoute', (added) => {
    const { config, schema } = added
    if (config?.definition === undefined || schema === undefined) return
    const answers = Object.entries(config.definition.response).map(
      ([status, answer]) => [status, markedOf(answer)] as const,
    )
    const response = Object.fromEntries(answers.map(([status, marked]) => [status, marked.schema]))
    config.definition = { ...config.definition, response }
    schema.response = response
    const marks = new Map(answers.map(([status, { mark }]) => [Number(status), mark]))
    // An error has another status.
    added.preSerialization = ({ credentials }, { statusCode }, payload, done) => {
      const mark = marks.get(statusCode)
      done(null, mark === undefined ? payload : mark(payload, credentials.livemode))
    }
  })
}

function markedOf(schema: z.ZodType): Marked {
  const marked = known.get(schema) ?? markSchema(schema)
  known.set(schema, marked)
  return marked
}

function markSchema(schema: z.ZodType): Marked {
  if (schema instanceof z.ZodArray) {
    const item = markedOf(schema.element as z.ZodType)
    return {
      schema: z.array(item.schema),
      mark: (values, livemode) => (values as unknown[]).map((value) => item.mark(value, livemode)),
    }
  }
  if (schema instanceof z.ZodObject) return markRecord(schema)
  throw new Error('An answer is a record or a list of records: only they can have `livemode`.')
}

/** Adds the field to a record, and to the records in its own fields, such as the messages of a batch. */
function markRecord(schema: z.ZodObject): Marked {
  const inner = new Map<string, Marked>()
  const shape: Record<string, z.ZodType> = {}
  for (const [name, field] of Object.entries(schema.shape)) {
    const marked = markField(field)
    if (marked !== undefined) inner.set(name, marked)
    shape[name] = marked?.schema ?? field
    if (name === 'tenant_id') shape['livemode'] = livemodeField
  }
  shape['livemode'] = livemodeField
  return {
    schema: schema.clone({ ...schema.def, shape }).meta({ ...schema.meta() }),
    mark(value, livemode) {
      const record: Record<string, unknown> = { ...(value as object), livemode }
      for (const [name, { mark }] of inner)
        if (record[name] !== undefined) record[name] = mark(record[name], livemode)
      return record
    },
  }
}

/** Undefined for a field that is no record of a tenant. */
function markField(field: z.ZodType): Marked | undefined {
  if (field instanceof z.ZodObject) return 'tenant_id' in field.shape ? markedOf(field) : undefined
  const marked = field instanceof z.ZodOptional ? markField(field.unwrap() as z.ZodType) : undefined
  return (
    marked && {
      ...marked,
      schema: marked.schema.optional().meta({ ...field.meta() }),
    }
  )
}
