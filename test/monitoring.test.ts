// Alerts, boards and runbook: they belong together, name metrics that exist, and the API serves the runbook.
import { readdir, readFile } from 'node:fs/promises'
import { expect } from 'vitest'
import { registry } from '#core/metrics.ts'
import { metricsIn, operationsGuide, readRules, readRuleTests } from '#test/alerts.ts'
import { boardFiles } from '#test/boards/boards.ts'
import { createClient } from '#test/client.ts'
import { testIn } from '#test/world.ts'

const test = testIn({})

const RUNBOOK = new URL('../docs/runbook/', import.meta.url)
const PAGES = (await readdir(RUNBOOK)).map((file) => file.replace('.md', ''))
const RULES = await readRules()
const ALERTS = RULES.filter(({ alert }) => alert !== undefined)
const names = [...new Set(ALERTS.map(({ alert }) => alert!))]
const page = (name: string) => readFile(new URL(`${name}.md`, RUNBOOK), 'utf8')

test('the files of the boards are up to date (npx vitest run test/monitoring.test.ts -u writes them)', async () => {
  const files = boardFiles()
  for (const [name, text] of files) await expect(text).toMatchFileSnapshot(`../deploy/grafana/${name}`)
  const present = await readdir(new URL('../deploy/grafana/', import.meta.url))
  expect(present.filter((name) => !files.has(name))).toEqual([])
})

test('the guide to operations lists all alerts with links to their pages (-u writes the table)', async () => {
  await expect(await operationsGuide()).toMatchFileSnapshot('../docs/guides/operations.md')
})

test('each alert has a severity, texts and a page of the runbook, and each page has an alert', async () => {
  expect(PAGES.toSorted()).toEqual(names.toSorted())
  for (const { alert, labels, annotations } of ALERTS) {
    expect(labels).toEqual({ severity: expect.stringMatching(/^(?:page|ticket|none)$/), service: 'sluice' })
    expect(annotations).toEqual({
      summary: expect.any(String),
      description: expect.any(String),
      runbook_url: `{{ $externalLabels.sluice_docs }}/docs/runbook/${alert}`,
    })
  }
  for (const name of PAGES) {
    const headings = Array.from((await page(name)).matchAll(/^#+ (.+)$/gm), ([, heading]) => heading)
    expect(headings).toEqual([name, 'How to look', 'What to do', 'When it is over'])
  }
})

test('each alert is tested by a time at which it fires and one at which it does not', async () => {
  const tests = await readRuleTests()
  for (const { alert, labels } of ALERTS) {
    const of_alert = tests.filter((each) => each.alert === alert && each.severity === labels['severity'])
    // The Watchdog always fires.
    const expected = alert === 'Watchdog' ? [true] : [false, true]
    const fires = [false, true].filter((each) => of_alert.some(({ fires }) => fires === each))
    expect([alert, labels['severity'], fires]).toEqual([alert, labels['severity'], expected])
  }
})

test('rules, boards, runbook and the guide to monitoring name only metrics that exist', async () => {
  const texts = [
    ...RULES.map(({ expr }) => expr),
    ...boardFiles().values(),
    ...(await Promise.all(PAGES.map(page))),
    await readFile(new URL('../docs/guides/monitoring.md', import.meta.url), 'utf8'),
  ]
    .join('\n')
    // A label and no metric.
    .replaceAll('sluice_docs', '')
  const registered = registry.getMetricsAsArray().map(({ name }) => name)
  const named = metricsIn(texts)
  expect(named.filter((name) => !registered.includes(name))).toEqual([])
  const recorded = RULES.flatMap(({ record }) => record ?? [])
  const used = Array.from(texts.matchAll(/\bsluice:[\w:]+/g), ([name]) => name)
  expect(used.filter((name) => !recorded.includes(name))).toEqual([])
})

test('the API serves each page of the runbook, with links that work, and the search finds it', async ({
  world,
}) => {
  const reader = createClient(world.client.url, '')
  const statuses = new Map<string, number>()
  for (const name of PAGES) {
    const served = await reader.get(`/docs/runbook/${name}`)
    expect([name, served.status]).toEqual([name, 200])
    expect(served.text).toMatch(new RegExp(`<article><h1>${name}</h1>\\s*<p>`))
    for (const [, link] of served.text.matchAll(/<article>[^]*?<\/article>/g).flatMap(linksOf)) {
      const [path, anchor] = link!.split('#') as [string, string | undefined]
      const target = path === '' ? served : await reader.get(path)
      statuses.set(link!, target.status)
      const has_anchor = anchor === undefined || target.text.includes(`id="${anchor}"`)
      expect([name, link, has_anchor]).toEqual([name, link, true])
    }
    const found = await reader.get(`/docs/guides/search?q=${name}`)
    expect(found.text).toContain(`<li><a href="/docs/runbook/${name}">`)
  }
  expect(statuses.size).toBeGreaterThan(20)
  expect([...statuses].filter(([, status]) => status !== 200)).toEqual([])
  expect((await reader.get('/docs/runbook/Nothing')).status).toBe(404)
})

function linksOf([article]: RegExpMatchArray) {
  return article.matchAll(/href="([^"]+)"/g)
}
