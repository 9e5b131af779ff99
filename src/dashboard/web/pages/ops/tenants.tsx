// Tenants by their share of the work, over all queues or one.
import { NativeSelect, SegmentedControl } from '@mantine/core'
import { useAddressSearch } from '../../address.ts'
import { PageHeader } from '../../kit/PageHeader.tsx'
import { RANGE_OPTIONS } from '../../operations/series.ts'
import { QUEUE_NAMES } from '../../operations/shapes.ts'
import { TenantShares } from '../../operations/TenantShares.tsx'

export function TenantsPage() {
  const [{ queue, range }, change] = useAddressSearch()
  const shown = RANGE_OPTIONS.find(({ value }) => value === range)?.value ?? '1h'
  const of_queue = QUEUE_NAMES.find((name) => name === queue)
  return (
    <>
      <PageHeader
        title="Tenants"
        description="Finished jobs by tenant, busiest first. A row opens the jobs of its tenant."
      />
      <search aria-label="Filters" className="filters">
        <NativeSelect
          label="Queue"
          value={of_queue ?? ''}
          data={[{ value: '', label: 'All' }, ...QUEUE_NAMES]}
          onChange={(event) => change({ queue: event.currentTarget.value })}
        />
        <SegmentedControl
          aria-label="Range"
          size="xs"
          data={RANGE_OPTIONS}
          value={shown}
          onChange={(value) => change({ range: value })}
        />
      </search>
      <TenantShares {...(of_queue !== undefined && { queue: of_queue })} window={shown} />
    </>
  )
}
