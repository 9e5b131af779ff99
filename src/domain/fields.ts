// Fields that the schemas of all resources share.
import { z } from 'zod'
import { metadataJson } from '#core/json.ts'
import { timestamp } from '#core/time.ts'

/** The id and the tenant. `example`: an example of the id. */
export function idFields(resource: string, example: string) {
  return {
    id: z.uuid().meta({ description: `The id of the ${resource}.`, example }),
    tenant_id: z.uuid().meta({
      description: 'The tenant that it belongs to.',
      example: '0198f6ef-9a00-7000-8000-00000000ac3e',
    }),
  }
}

/** The idempotency key of a resource that only callers create. */
export function keyField(example: string) {
  return z.string().meta({ description: 'The idempotency key that it was created with.', example })
}

/** The metadata and the times of creation and update. `resources`: the plural name of the resource. */
export function trailingFields(resources: string) {
  return {
    metadata: metadataJson,
    created_at: timestamp.meta({
      description: `When it was created. Unique among your ${resources}, so lists use it as their cursor.`,
    }),
    updated_at: timestamp.meta({ description: 'When it last changed.' }),
  }
}
