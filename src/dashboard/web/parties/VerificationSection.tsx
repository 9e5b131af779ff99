// The verifications of a customer, a recipient or a merchant, and the button that starts one.
import { Button } from '@mantine/core'
import { ShieldCheck } from 'lucide-react'
import { useState } from 'react'
import type { KycSubjectType, Verification } from '#sdk/index.ts'
import { useQuery } from '@tanstack/react-query'
import { readPage } from '../api.ts'
import { timeColumn } from '../kit/columns.tsx'
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { singlePageList } from '../kit/list.ts'
import { EmptyState } from '../kit/states.tsx'
import { Status } from '../kit/Status.tsx'
import { pollInterval } from '../poll-interval.ts'
import { answerKey } from '../queries.ts'
import { useAreaState, useMay } from '../session.tsx'
import { StartVerification } from '../verifications/StartVerification.tsx'
import { decisionText, isUndecided } from '../verifications/texts.ts'

const COLUMNS: TableColumn<Verification>[] = [
  timeColumn('Started', ({ created_at }) => created_at),
  { title: 'Status', cell: ({ status }) => <Status status={status} resource="kyc" /> },
  { title: 'Decided', cell: decisionText },
  { title: 'Failure', cell: ({ failure }) => failure?.message ?? '–', clip: true },
]

/** `removed`: the party was deleted or archived, and cannot be verified. */
export function VerificationSection({
  type,
  id,
  name,
  removed,
}: {
  type: KycSubjectType
  id: string
  name: string
  removed: boolean
}) {
  const path = '/v1/compliance/kyc'
  const parameters = { subject_id: id, subject_type: type, limit: 5 }
  const deployed = useAreaState('compliance') === 'deployed'
  const query = useQuery({
    queryKey: answerKey(path, parameters),
    queryFn: ({ signal }) => readPage<Verification>(path, parameters, signal),
    refetchInterval: ({ state }) => pollInterval(10_000, state),
    enabled: deployed,
  })
  const may_start = useMay('createKyc')
  const [starting, setStarting] = useState(false)
  if (!deployed) return null
  const rows = query.data?.rows
  const open = rows?.some(isUndecided)
  return (
    <section className="section">
      <div className="inline">
        <h2>Verifications</h2>
        {may_start && !removed && open === false && (
          <Button
            className="section-action"
            leftSection={<ShieldCheck size={14} />}
            onClick={() => setStarting(true)}
          >
            Start verification
          </Button>
        )}
      </div>
      <DataTable
        label="Verifications"
        list={singlePageList(query, rows)}
        columns={COLUMNS}
        rowKey={(row) => row.id}
        to={(row) => `/compliance/${row.id}`}
        paged={false}
        empty={
          <EmptyState title="Not verified yet">The identity of {name} has not been checked yet.</EmptyState>
        }
      />
      <StartVerification
        opened={starting}
        onClose={() => setStarting(false)}
        subject={{ type, id }}
        name={name}
      />
    </section>
  )
}
