// The frame of the wallet's two tabs: balances, and the button for a top-up.
import { Button, Tabs } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useMemo, useState, type ReactNode } from 'react'
import type { TopUp, WalletBalance } from '#sdk/index.ts'
import { Skeleton } from '../kit/Skeleton.tsx'
import { Money } from '../kit/Money.tsx'
import { PageHeader } from '../kit/PageHeader.tsx'
import { ErrorState } from '../kit/states.tsx'
import { useAnswer } from '../queries.ts'
import { useMay } from '../session.tsx'
import { usePaletteActs } from '../shell/acts.ts'
import { useBalances } from './balances.ts'
import { TopUpDialog } from './TopUpDialog.tsx'
import '../parties/parties.css'

const TABS = [
  { tab: 'transactions', title: 'Transactions', to: '/wallet' },
  { tab: 'top-ups', title: 'Top-ups', to: '/wallet/top-ups' },
] as const

export function WalletFrame({ tab, children }: { tab: (typeof TABS)[number]['tab']; children: ReactNode }) {
  const navigate = useNavigate()
  const balances = useBalances()
  const may_top_up = useMay('createTopUp')
  const [open, setOpen] = useState(false)
  usePaletteActs(
    useMemo(() => (may_top_up ? [{ title: 'Top up', run: () => setOpen(true) }] : []), [may_top_up]),
  )
  return (
    <>
      <PageHeader
        title={tab === 'transactions' ? 'Wallet' : 'Top-ups · Wallet'}
        heading="Wallet"
        description="Your balance in each currency, and its transactions."
        read={balances}
        actions={
          may_top_up && (
            <Button variant="filled" leftSection={<Plus size={14} />} onClick={() => setOpen(true)}>
              Top up
            </Button>
          )
        }
      />
      {balances.data === undefined && balances.error !== null ? (
        <ErrorState error={balances.error} retry={balances.refetch} />
      ) : (
        <Balances balances={balances.data} />
      )}
      <Tabs
        value={tab}
        onChange={(to) => void navigate({ to: TABS.find((each) => each.tab === to)?.to ?? '/wallet' })}
      >
        <Tabs.List mb="md">
          {TABS.map((each) => (
            <Tabs.Tab key={each.tab} value={each.tab}>
              {each.title}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {TABS.map((each) => (
          <Tabs.Panel key={each.tab} value={each.tab}>
            {children}
          </Tabs.Panel>
        ))}
      </Tabs>
      <TopUpDialog opened={open} onClose={() => setOpen(false)} />
    </>
  )
}

function Balances({ balances }: { balances: WalletBalance[] | undefined }) {
  const parameters = { status: 'pending', limit: 100 }
  const { data: pending } = useAnswer<TopUp[]>('/v1/wallet/top_ups', parameters, { interval_ms: 10_000 })
  const pendingIn = (currency: string) =>
    pending
      ?.filter((top_up) => top_up.currency === currency)
      .reduce((sum, { amount_minor }) => sum + amount_minor, 0)
  if (balances === undefined) return <BalancesSkeleton />
  // A pending top-up may be the first in its currency.
  const first = [...new Set(pending?.map(({ currency }) => currency))].filter((currency) =>
    balances.every((balance) => balance.currency !== currency),
  )
  const all = [
    ...balances,
    ...first.map((currency) => ({
      currency,
      balance_minor: 0,
      pending_payouts_minor: 0,
      available_minor: 0,
    })),
  ].sort((one, other) => one.currency.localeCompare(other.currency))
  if (all.length === 0) return null
  return (
    <div className="balances">
      {all.map(({ currency, balance_minor, pending_payouts_minor, available_minor }) => (
        <section key={currency} className="balance" aria-label={`Balance in ${currency.toUpperCase()}`}>
          <h2>{currency.toUpperCase()} available</h2>
          <div className="balance-value">
            <Money minor={available_minor} currency={currency} />
          </div>
          <dl>
            <div>
              <dt>Balance</dt>
              <dd>
                <Money minor={balance_minor} currency={currency} />
              </dd>
            </div>
            <div>
              <dt>Reserved for payouts</dt>
              <dd>
                <Money minor={pending_payouts_minor} currency={currency} />
              </dd>
            </div>
            <div>
              <dt>Pending top-ups</dt>
              <dd>
                {pending === undefined ? (
                  <Skeleton width={60} />
                ) : (
                  <>
                    {pending.length >= parameters.limit && 'at least '}
                    <Money minor={pendingIn(currency) ?? 0} currency={currency} />
                  </>
                )}
              </dd>
            </div>
          </dl>
        </section>
      ))}
    </div>
  )
}

function BalancesSkeleton() {
  return (
    <div className="balances" role="status" aria-busy="true" aria-label="Loading">
      {[0, 1].map((at) => (
        <div key={at} className="balance">
          <Skeleton width={90} />
          <div className="balance-value">
            <Skeleton width={140} height={20} />
          </div>
          <div className="stack">
            <Skeleton width="80%" />
            <Skeleton width="70%" />
            <Skeleton width="75%" />
          </div>
        </div>
      ))}
    </div>
  )
}
