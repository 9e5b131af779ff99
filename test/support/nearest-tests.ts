// Finds the test files nearest to a change. Almost every test imports almost every file through the processes that it
// starts, so only short import distances and file names count.
import { execFile } from 'node:child_process'
import { glob, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'

const IMPORT = /(?:\bfrom|\bimport|\bimport\()\s*['"]([#.][^'"]+)['"]/g
const SOURCES = '{src,test,sdk/src,sdk/generate,bench,deploy,fuzz,torture}/**/*.{ts,tsx}'
/**
 * Slow tests, of complete systems or browsers. Such a test runs only if its own file has changed, and few other test
 * files have changed.
 */
const SLOW = /^test\/(?:crash-|browser-|adding-a-|fuzz|torture\.|scripts|sdk-package|startup|supervisor)/
/** If more test files than this have changed, none of the slow tests among them runs. */
const MAX_CHANGED_TESTS = 3
/** If more files than this have changed, no tests are selected. */
const MAX_CHANGED_FILES = 40
/** The tests of files whose tests cannot be found by imports: the distance is too long, or nothing imports the file. */
const TESTS_OF: [files: RegExp, tests: string[]][] = [
  [
    /^src\/workers\/handlers\/(?:create|change|calls|absence)\.ts$/,
    ['provider-lookups', 'provider-faults', 'provider-duplicates'],
  ],
  [/^migrations\//, ['migration', 'database-types', 'roles']],
  [/^src\/domain\/ledger\//, ['ledger']],
  [/^(?:compose\.yaml$|deploy\/)/, ['deploy']],
]
/** At distance 2 the test imports a file that imports the changed file. */
const MAX_IMPORT_DISTANCE = 2

/** Files, including new files, that differ from origin/main, or from the last commit if that branch does not exist. */
export async function changedFiles(root: string): Promise<string[]> {
  const git = async (...args: string[]) =>
    (await promisify(execFile)('git', args, { cwd: root })).stdout.split('\n').filter((line) => line !== '')
  const [base = 'HEAD'] = await git('merge-base', 'HEAD', 'origin/main').catch(() => [])
  const changed = await git('diff', '--name-only', '--diff-filter=d', base)
  return [...new Set([...changed, ...(await git('ls-files', '--others', '--exclude-standard'))])]
}

type Selection = { near: string[]; count: number; note: string | null }

/**
 * The nearest test files, at most `most`, and the count of all test files. `note`: why the selection says little about
 * the change.
 */
export async function nearestTests(
  root: string,
  changed: readonly string[],
  most: number,
): Promise<Selection> {
  const texts = new Map<string, string>()
  for await (const file of glob(SOURCES, { cwd: root }))
    texts.set(file, await readFile(join(root, file), 'utf8'))
  const tests = [...texts.keys()].filter((file) => /^test\/[^/]+\.test\.ts$/.test(file)).sort()
  if (changed.length > MAX_CHANGED_FILES) {
    const note = `${changed.length} files are too many changed files for a selection: run npm test`
    return { near: [], count: tests.length, note }
  }
  const importers = importersOf(texts, await aliases(root))
  const scores = new Map<string, number>()
  const score = (test: string, points: number) => {
    if (texts.has(test)) scores.set(test, Math.min(points, scores.get(test) ?? Infinity))
  }
  for (const file of changed) {
    if (tests.includes(file)) score(file, 0)
    const distances = importDistances(file, importers)
    for (const [test, distance] of distances) if (tests.includes(test)) score(test, distance)
    for (const test of tests) {
      if (isNamedAfter(test, file)) score(test, 1.5)
      else if (!/\.tsx?$/.test(file) && texts.get(test)!.includes(basename(file))) score(test, 1)
      if ([...distances.keys()].some((importer) => isNamedAfter(test, importer))) score(test, 2.5)
    }
    for (const test of testsOf(file)) score(test, 1)
  }
  const has_near = scores.size > 0
  if (changed.some((file) => /\.tsx?$/.test(file))) score('test/architecture.test.ts', 0.5)
  const changed_tests = changed.filter((file) => tests.includes(file))
  const slow = changed_tests.length > MAX_CHANGED_TESTS ? [] : changed_tests
  const near = [...scores.keys()].filter((test) => !SLOW.test(test) || slow.includes(test))
  near.sort((a, b) => scores.get(a)! - scores.get(b)! || a.localeCompare(b))
  const note = has_near || changed.length === 0 ? null : 'No test is near this change: run npm test'
  return { near: near.slice(0, most), count: tests.length, note }
}

/** The tests that the list names for a file. */
function testsOf(file: string): string[] {
  const listed = TESTS_OF.filter(([files]) => files.test(file)).flatMap(([, tests]) => tests)
  return listed.map((name) => `test/${name}.test.ts`)
}

/** The import aliases, which begin with `#`, and their folders. */
async function aliases(root: string): Promise<[alias: string, folder: string][]> {
  const { imports } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as {
    imports: Record<string, string>
  }
  return Object.entries(imports).map(([alias, path]) => [
    alias.replace('*', ''),
    path.replace(/^\.\/|\*$/g, ''),
  ])
}

/** For each file, the files that import it. */
function importersOf(texts: Map<string, string>, folders: [string, string][]): Map<string, string[]> {
  const importers = new Map<string, string[]>()
  for (const [file, text] of texts)
    for (const [, target] of text.matchAll(IMPORT)) {
      const [alias, folder] = folders.find(([name]) => target!.startsWith(name)) ?? []
      const imported =
        alias === undefined ? join(file, '..', target!) : join(folder!, target!.slice(alias.length))
      importers.set(imported, [...(importers.get(imported) ?? []), file])
    }
  return importers
}

/** For each file that imports `file` directly or indirectly, the number of imports between them, up to the limit. */
function importDistances(file: string, importers: Map<string, string[]>): Map<string, number> {
  const distances = new Map<string, number>()
  let last = [file]
  for (let distance = 1; distance <= MAX_IMPORT_DISTANCE; distance += 1) {
    last = last.flatMap((each) => importers.get(each) ?? []).filter((each) => !distances.has(each))
    for (const each of last) distances.set(each, distance)
  }
  return distances
}

/**
 * True if the test has the name of the file or of its folder: payments.test.ts has the name of the folder of
 * api/routes/payments/create.ts.
 */
function isNamedAfter(test: string, file: string): boolean {
  const path_names = file
    .replace(/\.\w+$/, '')
    .split('/')
    .slice(1)
  const name = basename(test, '.test.ts')
  return path_names.some((path_name) => name === path_name || name.startsWith(`${path_name}-`))
}
