// The names of customers, recipients and merchants.
import { VisuallyHidden } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import type { Customer, KycSubjectType, Merchant, Recipient } from '#sdk/index.ts'
import { Skeleton } from '../kit/Skeleton.tsx'
import { shortId } from '../kit/Id.tsx'
import { RESOURCE_PAGES, pageOfResource } from '../resources.ts'
import { useAnswer } from '../queries.ts'
import { useAreaState } from '../session.tsx'

export const customerName = ({ name, email }: Pick<Customer, 'name' | 'email'>): string =>
  name ?? email ?? 'No name'

/** The name, read by id. If that fails, the end of the id. `link`: links to the page. */
export function PartyName({ type, id, link = false }: { type: KycSubjectType; id: string; link?: boolean }) {
  const deployed = useAreaState(`${type}s`) === 'deployed'
  const { data, error } = useAnswer<Customer | Recipient | Merchant>(
    `/v1${RESOURCE_PAGES[type].page}/${id}`,
    undefined,
    {
      enabled: deployed,
    },
  )
  const name = data === undefined ? undefined : partyName(data)
  if (name === undefined && error === null && deployed)
    return (
      <>
        <Skeleton width={120} />
        {/* The accessible name of the row's link while the name is loading. */}
        <VisuallyHidden>{shortId(id)}</VisuallyHidden>
      </>
    )
  const displayed_name = name ?? <code className="mono">{shortId(id)}</code>
  return link ? <Link to={pageOfResource(type, id)}>{displayed_name}</Link> : <span>{displayed_name}</span>
}

export function partyName(party: Customer | Recipient | Merchant): string {
  if ('display_name' in party) return party.display_name
  return 'deleted_at' in party && party.deleted_at !== null ? 'Deleted customer' : customerName(party)
}
