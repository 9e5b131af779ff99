// `npm run ledger`: an operator proposes a change of the ledger; another operator confirms it in the dashboard.
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { ConfigError, loadConfig } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import { currencyCode, moneyText } from '#core/money.ts'
import { commandActor } from '#domain/people/operator-here.ts'
import { findOperator } from '#domain/people/operate.ts'
import { findPayoutTenant } from '#domain/payouts/find.ts'
import { decideProposal, propose, type Operator } from '#domain/proposals/decide.ts'
import {
  EXPIRES_HOURS,
  findProposal,
  listProposals,
  proposalState,
  type Proposal,
  type Proposed,
} from '#domain/proposals/proposal.ts'
import { withDatabase } from './database.ts'
import { findCommand, refuseSurplus, requireOption, requireReason, resolveTenant } from './arguments.ts'
import { print, terminalText } from './print.ts'
import { runAsProgram } from './program.ts'

const HELP = `sluice ledger: proposes manual changes of the ledger. Nothing happens until another operator confirms in the dashboard.

  npm run ledger -- correct --tenant acme --currency usd --amount=-500 --reason "posted twice" --by ada@acme.example
  npm run ledger -- fail-payout <payout id> --reason "the bank confirms that it was lost" --by ada@acme.example
  npm run ledger -- list [--state open] [--limit 25]
  npm run ledger -- cancel <proposal id> --by ada@acme.example

correct      proposes to change the balance of a tenant. --amount is in the smallest unit of the currency (cents), as in
             the API. A negative amount debits the tenant: --amount=-500 debits USD 5.00. The balance may become
             negative. Posted as a transaction of kind correction.
fail-payout  proposes to fail a payout, whatever its status at the processor, and to release its amount at once. If the
             processor pays it later, the payment is posted and the balance may become negative. Until then a drift
             shows the difference. The tenant sees --reason as the failure message.
list         lists proposals, newest first. --state: one of ${proposalState.options.join(', ')}.
cancel       withdraws your own proposal.

--tenant names a tenant by its slug, its twin in test mode by <slug>/test, and either by its id.
--by names the proposing operator by the dashboard's email address: the proposer cannot confirm. A proposal expires
after ${EXPIRES_HOURS} hours.
--json prints JSON. Each act is in the audit log, with your user name on this machine.
DATABASE_URL names the database. Default: the database of the \`npm start\` that runs in this folder.`

const OPTIONS = {
  tenant: { type: 'string' },
  currency: { type: 'string' },
  amount: { type: 'string' },
  reason: { type: 'string' },
  by: { type: 'string' },
  state: { type: 'string' },
  limit: { type: 'string', default: '25' },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

type LedgerOptions = Partial<Record<'tenant' | 'currency' | 'amount' | 'reason' | 'by' | 'state', string>> & {
  limit: string
  json: boolean
}

/** The maximum number of proposals that `list` prints. */
const MAX_LISTED = 1_000
const COMMANDS = { correct, 'fail-payout': failPayout, list, cancel }

export async function ledgerCommand(args: string[], env: NodeJS.ProcessEnv): Promise<void> {
  const { positionals, values } = parseArgs({ args, options: OPTIONS, allowPositionals: true })
  const [command, id] = positionals
  if (values.help || command === undefined) return print(HELP)
  const perform = findCommand(COMMANDS, command)
  refuseSurplus(positionals, HELP)
  await withDatabase(loadConfig(env), { max: 1, application_name: 'sluice-ledger' }, async (sql) => {
    await perform(sql, values, id)
  })
}

async function correct(sql: Sql, values: LedgerOptions): Promise<void> {
  const tenant_id = await resolveTenant(sql, requireOption(values, 'tenant'))
  const { data: currency } = currencyCode.safeParse(requireOption(values, 'currency'))
  if (currency === undefined)
    throw new ConfigError('--currency must be an ISO 4217 currency code, such as usd.')
  const amount = requireOption(values, 'amount')
  const amount_minor = Number(amount)
  if (!/^[+-]?\d{1,12}$/.test(amount) || amount_minor === 0)
    throw new ConfigError(
      '--amount must be a whole number of at most 12 digits in the smallest unit of the currency, and not 0. A negative amount debits the tenant: --amount=-500 debits USD 5.00.',
    )
  const reason = requireReason(values)
  await createProposal(sql, values, {
    kind: 'correction',
    tenant_id,
    currency,
    amount_minor,
    reason,
  })
}

async function failPayout(sql: Sql, values: LedgerOptions, id: string | undefined): Promise<void> {
  const payout_id = uuid(id, 'the payout')
  const tenant_id = await findPayoutTenant(sql, payout_id)
  if (tenant_id === undefined) throw new ConfigError('There is no such payout.')
  await createProposal(sql, values, {
    kind: 'fail_payout',
    tenant_id,
    payout_id,
    reason: requireReason(values),
  })
}

async function createProposal(sql: Sql, values: LedgerOptions, proposed: Proposed): Promise<void> {
  const { id } = await propose(sql, proposed, await proposer(sql, values))
  const proposal = (await findProposal(sql, id))!
  if (values.json) return print(JSON.stringify(proposal, null, 2))
  print(formatProposal(proposal))
  print('The change is proposed. Another operator must confirm it in the dashboard, under Proposals.')
}

async function list(sql: Sql, { state, limit: limit_text, json }: LedgerOptions): Promise<void> {
  const limit = Number(limit_text)
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LISTED)
    throw new ConfigError(`--limit must be a number from 1 to ${MAX_LISTED}`)
  const parsed_state = proposalState.optional().safeParse(state)
  if (!parsed_state.success)
    throw new ConfigError(`--state must be one of ${proposalState.options.join(', ')}`)
  const proposals = await listProposals(sql, {
    limit,
    ...(parsed_state.data && { state: parsed_state.data }),
  })
  if (json) return print(JSON.stringify(proposals, null, 2))
  if (proposals.length === 0) return print('No proposal matches.')
  for (const proposal of proposals) print(formatProposal(proposal))
}

async function cancel(sql: Sql, values: LedgerOptions, id: string | undefined): Promise<void> {
  const proposal_id = uuid(id, 'the proposal')
  const operator = await proposer(sql, values)
  const proposal = await findProposal(sql, proposal_id)
  if (proposal !== undefined && proposal.proposed_by_id !== operator.user_id)
    throw new ConfigError(
      `Only ${proposal.proposed_by} can cancel this proposal. Other operators can reject it in the dashboard.`,
    )
  await decideProposal(sql, proposal_id, 'rejected', operator)
  print(values.json ? JSON.stringify(await findProposal(sql, proposal_id), null, 2) : 'Canceled.')
}

/** The operator that --by names. Errors: ConfigError if it is missing or not an operator. */
async function proposer(sql: Sql, values: LedgerOptions): Promise<Operator> {
  const email = requireOption(values, 'by').toLowerCase()
  const user_id = await findOperator(sql, email)
  if (user_id === undefined)
    throw new ConfigError(`--by ${email} is not an operator. See \`npm run users -- list\`.`)
  const command = `npm run ledger, for ${email}`
  return { user_id, email, by: (tenant_id) => commandActor(command, tenant_id) }
}

function formatProposal({
  id,
  state,
  kind,
  tenant,
  payout_id,
  currency,
  amount_minor,
  ...rest
}: Proposal): string {
  const { proposed_by, decided_by, reason, refused, error, created_at } = rest
  const money = currency === null ? '' : moneyText(amount_minor!, currency)
  return [
    id,
    state,
    kind === 'correction' ? `correct ${money}` : `fail payout ${payout_id} of ${money}`,
    tenant,
    `by ${proposed_by} at ${created_at}`,
    decided_by === null ? '' : `decided by ${decided_by}`,
    reason,
    refused ?? error ?? '',
  ]
    .filter((text) => text !== '')
    .map((text) => terminalText(text, Infinity))
    .join('  ')
}

function uuid(id: string | undefined, what: string): string {
  if (!z.uuid().safeParse(id).success)
    throw new ConfigError(`${what}: "${id ?? ''}" is not an id. See --help.`)
  return id!.toLowerCase()
}

if (import.meta.main) await runAsProgram(ledgerCommand)
