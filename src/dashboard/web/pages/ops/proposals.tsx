// Proposals about money: one operator proposes, another confirms.
import { Button } from '@mantine/core'
import { useState } from 'react'
import type { TableColumn } from '../../kit/DataTable.tsx'
import { defineList } from '../../kit/define-list.ts'
import { Instant } from '../../kit/Instant.tsx'
import { ListPage } from '../../kit/ListPage.tsx'
import { Status } from '../../kit/Status.tsx'
import { useTenantPage } from '../../operations/TenantLink.tsx'
import { DecideProposalDialog, ProposalTarget, proposalTitle } from '../../operations/proposals.tsx'
import type { ProposalRow } from '../../operations/shapes.ts'
import { useSession } from '../../session.tsx'

type State = ProposalRow['state']

/** The status of each state, and its label if that differs. */
const STATES: Record<State, { status: string; label?: string }> = {
  open: { status: 'waiting', label: 'Open' },
  confirmed: { status: 'running', label: 'Confirmed' },
  done: { status: 'done' },
  refused: { status: 'refused' },
  rejected: { status: 'rejected' },
  canceled: { status: 'canceled' },
  expired: { status: 'expired' },
}

/** The reason why a proposal was not executed, otherwise the reason of the proposal. */
const explanationOf = ({ refused, error, reason }: ProposalRow) => refused ?? error ?? reason

const columnsOf = (open: ReturnType<typeof useTenantPage>['open']): TableColumn<ProposalRow>[] => [
  {
    title: 'Proposal',
    cell: (row) => (
      <>
        <strong>{proposalTitle(row)}</strong> <span className="dim">of {row.tenant}</span>
        <ProposalTarget proposal={row} open={open} short />
        <span title={explanationOf(row)}>{explanationOf(row)}</span>
      </>
    ),
    clip: true,
  },
  {
    title: 'Proposed',
    cell: (row) => <PersonAndTime by={row.proposed_by} at={row.created_at} />,
    clip: true,
  },
  { title: 'State', cell: ({ state }) => <Status {...STATES[state]} /> },
  {
    title: 'Decided',
    cell: ({ state, decided_by, decided_at, expires_at }) =>
      state === 'open' ? (
        <>
          expires <Instant at={expires_at} />
        </>
      ) : decided_by === null ? (
        '–'
      ) : (
        <PersonAndTime by={decided_by} at={decided_at} />
      ),
    clip: true,
  },
]

const PROPOSALS = defineList({
  path: '/ops/proposals',
  label: 'Proposals',
  filters: [{ kind: 'choice', name: 'state', label: 'State' }],
  columns: [],
  key: 'id',
  cursor: ({ id }) => id,
  interval_ms: 5_000,
  empty: {
    title: 'No proposals',
    text: (
      <>
        Create a proposal on the page of a payout, or with <code>npm run ledger</code>.
      </>
    ),
  },
})

export function ProposalsPage() {
  const { user } = useSession()
  const [pending, setPending] = useState<{ decision: 'confirm' | 'reject'; proposal: ProposalRow }>()
  const [opened, setOpened] = useState(false)
  const tenantPage = useTenantPage()
  const begin = (decision: 'confirm' | 'reject', proposal: ProposalRow) => {
    setPending({ decision, proposal })
    setOpened(true)
  }
  return (
    <ListPage
      of={{ ...PROPOSALS, columns: columnsOf(tenantPage.open) }}
      title="Proposals"
      description="Corrections of balances, and forced failures of payouts. One operator proposes, and another confirms."
      row_acts={(row) =>
        row.state === 'open' && (
          <span className="row-buttons">
            {row.proposed_by_id !== user.id && (
              <Button size="compact-xs" onClick={() => begin('confirm', row)}>
                Confirm
              </Button>
            )}
            <Button size="compact-xs" onClick={() => begin('reject', row)}>
              Reject
            </Button>
          </span>
        )
      }
    >
      {pending && (
        <DecideProposalDialog
          {...pending}
          key={`${pending.decision} ${pending.proposal.id}`}
          opened={opened}
          onClose={() => setOpened(false)}
          own={pending.proposal.proposed_by_id === user.id}
          open={(page) => {
            setOpened(false)
            tenantPage.open(page)
          }}
        />
      )}
      {tenantPage.dialog}
    </ListPage>
  )
}

function PersonAndTime({ by, at }: { by: string; at: string | null }) {
  return (
    <>
      <span title={by}>{by}</span>
      <br />
      <Instant at={at} />
    </>
  )
}
