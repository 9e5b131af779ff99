// Routes of the wallet: balances and transactions.
import { z } from 'zod'
import { currencyCode } from '#core/money.ts'
import { listWalletBalances, walletBalanceSchema } from '#domain/wallet/balances.ts'
import { listTransactions, transactionKind, walletTransactionSchema } from '#domain/wallet/transactions.ts'
import type { RouteApp, RouteContext } from '../context.ts'
import { EXAMPLE_ID, idText, nextPage, pageQuery, route } from '../route.ts'

const ofCurrency = currencyCode
  .optional()
  .meta({ description: 'Only this currency, in upper or lower case.', example: 'usd' })

export function walletRoutes(app: RouteApp, { sql, runList }: RouteContext): void {
  app.get(
    '/v1/wallet/balances',
    route({
      area: 'wallet',
      scope: 'wallet:read',
      operation_id: 'listWalletBalances',
      summary: 'List balances, by currency',
      description: 'A currency without any transaction is not listed.',
      querystring: z.strictObject({ currency: ofCurrency }),
      response: { 200: z.array(walletBalanceSchema) },
      errors: [],
    }),
    async ({ credentials: { tenant_id }, query: { currency } }) =>
      await listWalletBalances(sql, tenant_id, currency),
  )

  app.get(
    '/v1/wallet/transactions',
    route({
      area: 'wallet',
      scope: 'wallet:read',
      operation_id: 'listWalletTransactions',
      summary: 'List transactions, newest first',
      description:
        'Lists every change of a balance in the order in which it happened. In each currency, `balance_after_minor` is the `balance_after_minor` of the previous transaction plus `amount_minor`. Transactions of the same moment come on the same page, so there may be a few more than `limit`.',
      querystring: pageQuery.extend({
        currency: ofCurrency,
        kind: transactionKind.optional().meta({ description: 'Filter by kind.' }),
        subject_id: idText.optional().meta({
          description: 'Filter by payment, refund, dispute, top-up or payout.',
          example: EXAMPLE_ID,
        }),
      }),
      response: { 200: z.array(walletTransactionSchema) },
      errors: [],
    }),
    async (request, reply) => {
      const { query, credentials } = request
      const transactions = await runList(request, reply, (lists_sql) =>
        listTransactions(lists_sql, credentials.tenant_id, query),
      )
      reply.headers(nextPage(request.url, query.limit, transactions))
      return transactions
    },
  )
}
