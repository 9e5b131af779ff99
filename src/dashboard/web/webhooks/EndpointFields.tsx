// The dialogs that add and edit an endpoint.
import { Checkbox, TagsInput, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { EventTypes, WebhookEndpoint } from '#sdk/index.ts'
import { actResponse, ActResultText } from '../kit/ActResult.tsx'
import { sluice } from '../api.ts'
import { EVENT_PATTERNS } from '../generated/event-patterns.ts'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { invalidate } from '../queries.ts'
import { NewSecret } from './NewSecret.tsx'

type EndpointForm = {
  url: string
  types: string[]
  description: string
  max_in_flight: string
  rate_per_s: string
  ordered: boolean
}

const EMPTY: EndpointForm = {
  url: '',
  types: ['*'],
  description: '',
  max_in_flight: '10',
  rate_per_s: '',
  ordered: false,
}

export function AddEndpointDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const [fields, set] = useState(EMPTY)
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title="Add an endpoint"
      action="Add endpoint"
      effect="New events are sent to the endpoint, each signed with its secret."
      ready={isComplete(fields)}
      act={(idempotency_key) =>
        actResponse(sluice.webhookEndpoints.create(bodyOf(fields), { idempotency_key }))
      }
      onDone={() => invalidate('/v1/webhook_endpoints', '/webhook_endpoints')}
      shown_once
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          <NewSecret secret={result.data.secret} />
        </ActResultText>
      )}
    >
      <EndpointFields fields={fields} set={set} />
    </ConfirmDialog>
  )
}

export function EditEndpointDialog({
  opened,
  onClose,
  endpoint,
}: {
  opened: boolean
  onClose: () => void
  endpoint: WebhookEndpoint
}) {
  const { url, types, description, max_in_flight, rate_per_s, ordered } = endpoint
  const [fields, set] = useState<EndpointForm>({
    url,
    types,
    description: description ?? '',
    max_in_flight: String(max_in_flight),
    rate_per_s: rate_per_s === null ? '' : String(rate_per_s),
    ordered,
  })
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title="Edit the endpoint"
      action="Save endpoint"
      effect="It applies to all further attempts, including those of waiting deliveries."
      ready={isComplete(fields)}
      act={() => actResponse(sluice.webhookEndpoints.update(endpoint.id, bodyOf(fields)))}
      onDone={() => invalidate('/v1/webhook_endpoints')}
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          The endpoint is saved.
        </ActResultText>
      )}
    >
      <EndpointFields fields={fields} set={set} />
    </ConfirmDialog>
  )
}

function EndpointFields({ fields, set }: { fields: EndpointForm; set: (fields: EndpointForm) => void }) {
  const text = (name: 'url' | 'description' | 'max_in_flight' | 'rate_per_s') => ({
    value: fields[name],
    onChange: (event: { currentTarget: HTMLInputElement }) =>
      set({ ...fields, [name]: event.currentTarget.value }),
  })
  return (
    <>
      <TextInput
        type="url"
        label="URL"
        placeholder="https://shop.example/webhooks"
        data-autofocus
        {...text('url')}
      />
      <TagsInput
        size="xs"
        label="Types"
        description="A type, all types of a resource (payment.*), or all types (*)."
        data={EVENT_PATTERNS}
        limit={12}
        value={fields.types}
        onChange={(types) => set({ ...fields, types })}
      />
      <TextInput label="Description" maxLength={1000} {...text('description')} />
      <div className="field-pair">
        <TextInput
          label="Requests at once"
          description="Maximum, from 1 to 100."
          inputMode="numeric"
          {...text('max_in_flight')}
        />
        <TextInput
          label="Requests per second"
          description="Maximum. Leave empty for no limit."
          inputMode="numeric"
          {...text('rate_per_s')}
        />
      </div>
      <Checkbox
        label="In order"
        description="One at a time, by sequence. A failed delivery blocks those after it."
        checked={fields.ordered}
        onChange={(event) => set({ ...fields, ordered: event.currentTarget.checked })}
      />
    </>
  )
}

function isComplete({ url, types, max_in_flight }: EndpointForm): boolean {
  return url.trim() !== '' && types.length > 0 && /^\d+$/.test(max_in_flight.trim())
}

function bodyOf({ url, types, description, max_in_flight, rate_per_s, ordered }: EndpointForm) {
  return {
    url: url.trim(),
    // The API refuses values that are not event types.
    types: types as EventTypes[],
    description: description.trim() === '' ? null : description.trim(),
    max_in_flight: Number(max_in_flight),
    rate_per_s: rate_per_s.trim() === '' ? null : Number(rate_per_s),
    ordered,
  }
}
