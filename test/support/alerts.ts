// Reads the rules and boards of deploy/, and generates the table of alerts of the guide to operations.
import { readFile } from 'node:fs/promises'
import { parse } from 'yaml'
import { z } from 'zod'

const RULES = new URL('../../deploy/prometheus/rules.yaml', import.meta.url)
const RULE_TESTS = new URL('../../deploy/prometheus/rules.test.yaml', import.meta.url)
const OPERATIONS = new URL('../../docs/guides/operations.md', import.meta.url)

const rule = z.object({
  record: z.string().optional(),
  alert: z.string().optional(),
  expr: z.string(),
  for: z.string().optional(),
  labels: z.record(z.string(), z.string()).default({}),
  annotations: z.record(z.string(), z.string()).default({}),
})
export type Rule = z.infer<typeof rule>

const ruleTest = z.object({
  promql_expr_test: z.array(
    z.object({ expr: z.string(), exp_samples: z.array(z.object({ labels: z.string() })).default([]) }),
  ),
})

/** All rules of deploy/prometheus/rules.yaml, in order. */
export async function readRules(): Promise<Rule[]> {
  const { groups } = z
    .object({ groups: z.array(z.object({ rules: z.array(rule) })) })
    .parse(parse(await readFile(RULES, 'utf8')))
  return groups.flatMap(({ rules }) => rules)
}

/** For each test of an alert: the alert, with its severity if the test names it, and whether it must fire. */
export async function readRuleTests(): Promise<{ alert: string; severity: string; fires: boolean }[]> {
  const { tests } = z.object({ tests: z.array(ruleTest) }).parse(parse(await readFile(RULE_TESTS, 'utf8')))
  return tests.flatMap(({ promql_expr_test }) =>
    promql_expr_test.map(({ expr, exp_samples }) => ({
      alert: /alertname="(\w+)"/.exec(expr)?.[1] ?? '',
      severity: /severity="(\w+)"/.exec(expr)?.[1] ?? '',
      fires: exp_samples.length > 0,
    })),
  )
}

/** The names of metrics in a text, without the suffixes of histograms. */
export function metricsIn(text: string): string[] {
  const names = Array.from(text.matchAll(/\b(?:sluice|process|nodejs)_\w+/g), ([name]) =>
    name.replace(/_seconds_(?:bucket|count|sum)$/, '_seconds'),
  )
  return [...new Set(names)]
}

/** The metrics of an alert. Those of an objective are in its recording rules. */
function metricsOf({ expr }: Rule, rules: Rule[]): string[] {
  const slo = /slo="(\w+)"/.exec(expr)?.[1]
  const recorded = rules.filter(({ record, labels }) => record !== undefined && labels['slo'] === slo)
  return metricsIn([expr, ...(slo === undefined ? [] : recorded.map(({ expr }) => expr))].join('\n'))
}

/** The guide to operations, with the table of alerts that the rules give. */
export async function operationsGuide(): Promise<string> {
  const rules = await readRules()
  const alerts = Map.groupBy(
    rules.filter(({ alert }) => alert !== undefined),
    ({ alert }) => alert!,
  )
  const rows = Array.from(alerts, ([name, of_name]) => {
    const severities = of_name.map(({ labels }) => labels['severity']).join(', ')
    const metrics = metricsOf(of_name[0]!, rules).filter((metric) => metric.startsWith('sluice_'))
    const cells = [
      `[${name}](../runbook/${name}.md)`,
      severities,
      of_name[0]!.annotations['summary'],
      metrics.map((metric) => `\`${metric}\``).join(', '),
    ]
    return `| ${cells.join(' | ')} |\n`
  })
  const guide = await readFile(OPERATIONS, 'utf8')
  const table = `| alert | severity | what it means | metrics |\n| --- | --- | --- | --- |\n${rows.join('')}`
  return guide.replace(/^\| alert \|[^]*?\n(?!\|)/m, () => table)
}
