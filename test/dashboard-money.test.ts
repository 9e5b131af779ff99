// Amounts of money on the pages: in the decimals of the API, for every currency that it takes.
import { expect, test } from 'vitest'
import { currencyCode, DECIMALS } from '#core/money.ts'
import { DECIMALS as OF_PAGES } from '../src/dashboard/web/generated/currencies.ts'
import { formatMoney, parseMoney, typedMoney } from '../src/dashboard/web/kit/amounts.ts'

test('an amount is shown, typed and exported with the decimals that the API counts in', () => {
  expect(OF_PAGES).toEqual(DECIMALS)
  for (const [currency, decimals] of Object.entries(DECIMALS)) {
    expect(currencyCode.parse(currency)).toBe(currency)
    const shown = formatMoney(1_234_567, currency)
    const [, part = ''] = /\.(\d+)\D*$/.exec(shown) ?? []
    expect([currency, shown.replaceAll(/\D/g, ''), part.length]).toEqual([currency, '1234567', decimals])
    const typed = typedMoney(1_234_567, currency.toLowerCase())
    expect([typed, parseMoney(typed, currency)]).toEqual([
      (1_234_567 / 10 ** decimals).toFixed(decimals),
      1_234_567,
    ])
    expect(parseMoney('5000', currency)).toBe(5000 * 10 ** decimals)
    expect(parseMoney(`1.${'0'.repeat(decimals + 1)}`, currency)).toBe(undefined)
  }
})

test('currencies of which a browser knows other decimals are as the guide says', () => {
  const amounts = ['HUF', 'ISK', 'UGX', 'JPY', 'MGA', 'IQD', 'KWD'].map((currency) =>
    typedMoney(100_000, currency),
  )
  expect(amounts).toEqual(['1000.00', '1000.00', '1000.00', '100000', '100000', '100.000', '100.000'])
})
