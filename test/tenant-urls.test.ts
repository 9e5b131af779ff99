// Tests the URLs and headers of tenants: a URL must lead to a public address in any spelling.
import { expect, onTestFinished, test, vi } from 'vitest'
import { createLookup, type Lookup } from '#core/lookup.ts'
import { isReachable, networksOf, problemOfNetwork } from '#core/public-addresses.ts'
import { tenantHeaders } from '#core/tenant-headers.ts'
import { problemOfTenantUrl } from '#core/tenant-urls.ts'
import { openNameServer } from '#test/name-server.ts'
import { PRIVATE_HOSTS } from '#test/private-hosts.ts'

const NO_NETWORKS = networksOf([])
const LOOPBACK = networksOf(['127.0.0.0/8', '::1/128'])
const NOT_PUBLIC = 'must lead to a public address'
const unresolvable: Lookup = async (name) =>
  await Promise.reject(new Error(`the name ${name} has no address`))

/** The problem of a URL whose host name has the given addresses. Null: no problem. */
async function problemOf(
  url: string,
  {
    addresses,
    lookup = unresolvable,
    production = false,
    allowed = NO_NETWORKS,
  }: { addresses?: string[]; lookup?: Lookup; production?: boolean; allowed?: typeof NO_NETWORKS } = {},
): Promise<string | null> {
  const resolved: Lookup = addresses === undefined ? lookup : () => Promise.resolve(addresses)
  return await problemOfTenantUrl(url, { production, allowed, lookup: resolved })
}

/** For each network that is not public, the first and last address, and the adjacent public addresses. */
const BORDERS: [inside: string[], outside: string[]][] = [
  [['0.0.0.0', '0.255.255.255'], ['1.0.0.0']],
  [
    ['10.0.0.0', '10.255.255.255'],
    ['9.255.255.255', '11.0.0.0'],
  ],
  [
    ['100.64.0.0', '100.127.255.255'],
    ['100.63.255.255', '100.128.0.0'],
  ],
  [
    ['127.0.0.0', '127.255.255.255'],
    ['126.255.255.255', '128.0.0.0'],
  ],
  [
    ['169.254.0.0', '169.254.255.255'],
    ['169.253.255.255', '169.255.0.0'],
  ],
  [
    ['172.16.0.0', '172.31.255.255'],
    ['172.15.255.255', '172.32.0.0'],
  ],
  [
    ['192.0.0.0', '192.0.0.255'],
    ['191.255.255.255', '192.0.1.0'],
  ],
  [
    ['192.0.2.0', '192.0.2.255'],
    ['192.0.1.255', '192.0.3.0'],
  ],
  [['168.63.129.16'], ['168.63.129.15', '168.63.129.17']],
  [
    ['192.31.196.0', '192.31.196.255'],
    ['192.31.195.255', '192.31.197.0'],
  ],
  [
    ['192.52.193.0', '192.52.193.255'],
    ['192.52.192.255', '192.52.194.0'],
  ],
  [
    ['192.88.99.0', '192.88.99.255'],
    ['192.88.98.255', '192.88.100.0'],
  ],
  [
    ['192.168.0.0', '192.168.255.255'],
    ['192.167.255.255', '192.169.0.0'],
  ],
  [
    ['192.175.48.0', '192.175.48.255'],
    ['192.175.47.255', '192.175.49.0'],
  ],
  [
    ['198.18.0.0', '198.19.255.255'],
    ['198.17.255.255', '198.20.0.0'],
  ],
  [
    ['198.51.100.0', '198.51.100.255'],
    ['198.51.99.255', '198.51.101.0'],
  ],
  [
    ['203.0.113.0', '203.0.113.255'],
    ['203.0.112.255', '203.0.114.0'],
  ],
  [['224.0.0.0', '239.255.255.255', '240.0.0.0', '255.255.255.255'], ['223.255.255.255']],
  [['::', '::1', '1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'], ['2000::']],
  [['2001::', '2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff'], ['2001:200::']],
  [
    ['2001:db8::', '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['2001:db7:ffff:ffff:ffff:ffff:ffff:ffff', '2001:db9::'],
  ],
  [
    ['2002::', '2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '2003::'],
  ],
  [
    ['2620:4f:8000::', '2620:4f:8000:ffff:ffff:ffff:ffff:ffff'],
    ['2620:4f:7fff:ffff:ffff:ffff:ffff:ffff', '2620:4f:8001::'],
  ],
  // ISATAP: the second half contains an IPv4 address.
  [
    ['2600::5efe:10.0.0.1', '2600:1:2:3:0:5efe:7f00:1', '2600:1:2:3:200:5efe:169.254.169.254'],
    ['2600::5efe:8.8.8.8', '2600:1:2:3:200:5efe:808:808', '2600:1:2:3:4:5efe:a00:1', '2600::5eff:a00:1'],
  ],
  [['2600::200:5efe:a00:1', '2600:0:0:1::5efe:a00:1', '2600::5efe:0:0'], ['2600:5efe:a00:1::']],
  [
    ['3fff::', '3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '3fff:1000::'],
  ],
  [
    ['4000::', 'fc00::', 'fd00:ec2::254', 'fe80::1', 'fe80::1%eth0', 'fec0::1', 'ff02::1'],
    ['3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ],
  [
    ['64:ff9b::808:808', '64:ff9b:1::1', '::808:808'],
    ['::ffff:8.8.8.8', '::ffff:808:808'],
  ],
  [['::ffff:127.0.0.1', '::ffff:7f00:1', '::ffff:a9fe:a9fe', '::FFFF:10.0.0.1'], ['8.8.8.8']],
  [['', '127.1', '2130706433', 'localhost', '2606:4700:4700::1111%eth0'], ['2606:4700:4700::1111']],
]

test('the bounds of each network that is not public are exact', () => {
  for (const [inside, outside] of BORDERS) {
    expect(inside.filter((address) => isReachable(address, NO_NETWORKS))).toEqual([])
    expect(outside.filter((address) => !isReachable(address, NO_NETWORKS))).toEqual([])
  }
})

test('an allowed network permits only its own addresses, even in IPv4-mapped form', () => {
  const allowed = networksOf(['10.1.0.0/16', 'fd00:1::/32'])
  for (const address of ['10.1.0.0', '10.1.255.255', '::ffff:10.1.2.3', 'fd00:1::5', '8.8.8.8'])
    expect([address, isReachable(address, allowed)]).toEqual([address, true])
  for (const address of ['10.0.255.255', '10.2.0.0', '::ffff:10.2.0.0', 'fd00:2::', '::1', 'fd00:1::5%eth0'])
    expect([address, isReachable(address, allowed)]).toEqual([address, false])
})

test('addresses of cloud credentials cannot be reached even if their network is allowed, and adjacent addresses can be reached', () => {
  const allowed = networksOf(['0.0.0.0/0', '::/0'])
  const metadata_services: [address: string, in_hex: string][] = [
    ['169.254.0.0', 'a9fe:0'],
    ['169.254.169.254', 'a9fe:a9fe'],
    ['169.254.255.255', 'a9fe:ffff'],
    ['100.100.100.200', '6464:64c8'],
    ['192.0.0.192', 'c000:c0'],
    ['168.63.129.16', 'a83f:8110'],
  ]
  const adjacent: typeof metadata_services = [
    ['169.253.255.255', 'a9fd:ffff'],
    ['169.255.0.0', 'a9ff:0'],
    ['100.100.100.201', '6464:64c9'],
    ['192.0.0.193', 'c000:c1'],
    ['168.63.129.17', 'a83f:8111'],
  ]
  const spellings = ([address, hex]: [string, string]) => [
    address,
    `::ffff:${address}`,
    `::ffff:${hex}`,
    `64:ff9b::${address}`,
    `2002:${hex}::`,
    `2002:${hex}:1:2:3:4:5`,
    `2600::5efe:${hex}`,
  ]
  const refused = [
    ...metadata_services.flatMap(spellings),
    'fd00:ec2::254',
    'FD00:0EC2:0::254',
    'fd20:ce::254',
  ]
  expect(refused.filter((address) => isReachable(address, allowed))).toEqual([])
  const reachable = [...adjacent.flatMap(spellings), 'fd00:ec2::253', 'fd20:ce::255', 'fe80::1']
  expect(reachable.filter((address) => !isReachable(address, allowed))).toEqual([])
})

test('an invalid network is refused, and the error has a correction', () => {
  expect(['10.0.0.0/8', '0.0.0.0/0', '::1/128', 'fd00::/8'].map(problemOfNetwork)).toEqual(
    Array.from({ length: 4 }, () => null),
  )
  expect(problemOfNetwork('10.0.0.1')).toBe(
    '10.0.0.1 has no prefix length: for one address write 10.0.0.1/32',
  )
  expect(problemOfNetwork('::1')).toBe('::1 has no prefix length: for one address write ::1/128')
  for (const cidr of ['10.0.0.0/33', '10.0.0.0/08', '10.0.0.0/-1', '10.0.0.0/', 'fd00::/129'])
    expect(problemOfNetwork(cidr)).toContain('has a wrong prefix length')
  for (const cidr of ['', 'example.com/8', '10/8', '10.0.0.0/8/8', 'fe80::1%eth0/64'])
    expect(problemOfNetwork(cidr)).toContain('is not a network')
  expect(() => networksOf(['10.0.0.0/33'])).toThrow('10.0.0.0/33 has a wrong prefix length')
})

test.for(PRIVATE_HOSTS)('http://%s is refused without a query to the name server', async (host) => {
  const lookup: Lookup = () => Promise.reject(new Error('unexpected lookup'))
  expect(await problemOf(`http://${host}/hook`, { lookup })).toBe(NOT_PUBLIC)
  expect(await problemOf(`http://${host}:8080?a=b`, { lookup })).toBe(NOT_PUBLIC)
})

test('a host with a zone or an invalid address is refused', async () => {
  for (const host of [
    '[fe80::1%25eth0]',
    '[fe80::1%eth0]',
    '256.1.1.1',
    '1.2.3.4.5',
    '127.0.0.1%00',
    '[::1',
    '',
  ])
    expect([host, await problemOf(`http://${host}/`)]).toEqual([host, expect.stringMatching(/^must /)])
})

test('all addresses of a host name must be public, and a host name without an address is accepted', async () => {
  const url = 'https://hooks.example.com/a'
  expect(await problemOf(url, { addresses: ['93.184.215.14', '2606:2800::1'] })).toBe(null)
  for (const address of [
    '10.0.0.1',
    '127.0.0.1',
    '::1',
    '::ffff:10.0.0.1',
    '169.254.169.254',
    'fe80::1%eth0',
  ])
    expect(await problemOf(url, { addresses: ['93.184.215.14', address] })).toBe(NOT_PUBLIC)
  expect(await problemOf(url)).toBe(null)
  expect(await problemOf(url, { addresses: ['10.0.0.1'], allowed: networksOf(['10.0.0.0/8']) })).toBe(null)
  const silent: Lookup = () => new Promise(() => {})
  expect(await problemOf(url, { lookup: silent })).toBe(null)
})

test('localhost is the loopback address with any name server, and is allowed where loopback is allowed', async () => {
  const server = await openNameServer(() => ['8.8.8.8'])
  onTestFinished(() => server.close())
  const lookup = createLookup({ hosts: false, servers: [server.address] })
  for (const host of ['localhost', 'LOCALHOST.', 'a.b.localhost', 'ｌocalhost']) {
    expect(await problemOf(`http://${host}/`, { lookup })).toBe(NOT_PUBLIC)
    expect(await problemOf(`http://${host}/`, { lookup, allowed: LOOPBACK })).toBe(null)
  }
  expect(server.asked).toEqual([])
  // Only the last label of a host name decides whether the name is a local one.
  expect(await problemOf('http://localhost.example/', { lookup })).toBe(null)
  expect(new Set(server.asked)).toEqual(new Set(['localhost.example']))
})

test('a lookup asks the name servers for both address families, and concurrent lookups share a query', async () => {
  const zone: Record<string, string[]> = {
    'public.example': ['8.8.8.8', '2606:4700:4700::1111'],
    'mixed.example': ['8.8.8.8', 'fd00::1'],
    'printer.local': ['192.168.0.7'],
    'db.internal': ['10.0.0.5'],
    'empty.example': [],
  }
  const server = await openNameServer((name) => zone[name])
  onTestFinished(() => server.close())
  const lookup = createLookup({ hosts: false, servers: [server.address] })
  expect(await lookup('public.example')).toEqual(zone['public.example'])
  await Promise.all([lookup('mixed.example'), lookup('mixed.example')])
  expect(server.asked.filter((name) => name === 'mixed.example')).toHaveLength(2)
  for (const name of ['empty.example', 'nowhere.example'])
    await expect(lookup(name)).rejects.toThrow(`the name ${name} has no address`)
  const problemOfHost = (host: string) => problemOf(`http://${host}/`, { lookup })
  expect(await Promise.all(['mixed.example', 'printer.local', 'db.internal'].map(problemOfHost))).toEqual(
    Array.from({ length: 3 }, () => NOT_PUBLIC),
  )
  expect(
    await Promise.all(['public.example', 'empty.example', 'nowhere.example'].map(problemOfHost)),
  ).toEqual([null, null, null])
})

test('names in the hosts file are resolved only where private addresses are allowed', async () => {
  const server = await openNameServer(() => undefined)
  onTestFinished(() => server.close())
  // Every operating system resolves this name without a name server.
  const name = '0x7f.1'
  const [public_only, with_hosts] = [false, true].map((hosts) =>
    createLookup({ hosts, servers: [server.address] }),
  )
  await expect(public_only!(name)).rejects.toThrow(`the name ${name} has no address`)
  expect(await with_hosts!(name)).toEqual(['127.0.0.1'])
})

test('the resolver of the operating system has one query at a time, and a lookup that waits too long fails', async () => {
  const server = await openNameServer(() => undefined)
  onTestFinished(() => server.close())
  const response = Promise.withResolvers<string[]>()
  const queries: string[] = []
  const system: Lookup = (name) => {
    queries.push(name)
    return response.promise
  }
  const options = { hosts: true, servers: [server.address], system }
  const [one, other] = [createLookup(options), createLookup(options)]
  const refused: unknown[] = []
  const lookups = Array.from({ length: 12 }, (_, at) => (at % 2 === 0 ? one : other)(`${at}.example`))
  for (const each of lookups) each.catch((error: unknown) => refused.push(error))
  try {
    await vi.waitFor(() => expect(refused).toHaveLength(11), { timeout: 5_000 })
    expect(queries).toHaveLength(1)
  } finally {
    response.resolve(['10.0.0.1'])
  }
  expect((await Promise.allSettled(lookups)).filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  expect(await one('later.example')).toEqual(['10.0.0.1'])
  expect(queries).toHaveLength(2)
})

test('a URL with an ambiguous form is refused', async () => {
  const addresses = ['8.8.8.8']
  const problemOfPublicUrl = async (url: string, production = false) =>
    await problemOf(url, { addresses, production })
  const longest = `http://example.com/${'a'.repeat(2029)}`
  expect(longest).toHaveLength(2048)
  for (const url of [
    longest,
    'http://example.com',
    'HTTPS://EXAMPLE.com:8080/a@b?c=@d',
    'https://bücher.example/ä?x=ß',
    'http://8.8.8.8/',
    'http://[2606:4700:4700::1111]:81/',
  ])
    expect([url, await problemOfPublicUrl(url)]).toEqual([url, null])
  for (const url of ['http://xn--mnchen-3ya.example/', 'http://münchen.example/', 'http://xn--p1ai/'])
    expect([url, await problemOfPublicUrl(url)]).toEqual([url, null])
  for (const [url, problem] of [
    [`${longest}a`, 'must have at most 2048 characters'],
    [`http://example.com/${'ä'.repeat(500)}`, 'must have at most 2048 characters when it is encoded'],
    ['ftp://example.com/', 'must be an http or https URL'],
    ['example.com/hook', 'must be an http or https URL'],
    ['//example.com/', 'must be an http or https URL'],
    ['http:example.com', 'must be an http or https URL'],
    ['http:///example.com', 'must be an http or https URL'],
    ['javascript:alert(1)//http://example.com', 'must be an http or https URL'],
    ['http://example.com:65536/', 'must be an http or https URL'],
    ['http://example.com:0/', 'must not have port 0'],
    [' http://example.com/', 'must be an http or https URL'],
    ['http://example.com/a\nb', 'must not contain blanks, control or invisible characters, or backslashes'],
    ['http://example.com/a b', 'must not contain blanks, control or invisible characters, or backslashes'],
    ['http://example.com\\@10.0.0.1/', expect.stringMatching(/^must not/)],
    ['http://example.com/\ud800', 'must not contain blanks, control or invisible characters, or backslashes'],
    ...['\u202e', '\u200b', '\u2060', '\u00ad', '\ufeff', '\u{e0041}', '\u3164'].flatMap((invisible) => [
      [
        `http://example.com/${invisible}a`,
        'must not contain blanks, control or invisible characters, or backslashes',
      ] as const,
      [`http://exam${invisible}ple.com/`, expect.stringMatching(/^must (not contain|be)/)] as const,
    ]),
    ['http://xn--/', 'must have a host name that can be decoded'],
    ['http://a.xn--99999999.example/', 'must have a host name that can be decoded'],
    ['http://user:secret@example.com/', 'must not have a user or a password'],
    ['http://@example.com/', 'must not have a user or a password'],
    ['http://example.com/#', 'must not have a fragment (#...): it is never sent'],
    ['http://example.com/a#b', 'must not have a fragment (#...): it is never sent'],
  ] as const)
    expect([url, await problemOfPublicUrl(url)]).toEqual([url, problem])
})

test('production accepts only https URLs with the port 443 or 8443', async () => {
  const productionProblem = (url: string) => problemOf(url, { addresses: ['8.8.8.8'], production: true })
  for (const url of ['https://a.example/', 'https://a.example:443/', 'https://a.example:8443/'])
    expect(await productionProblem(url)).toBe(null)
  expect(await productionProblem('http://a.example/')).toBe('must be https')
  expect(await productionProblem('http://a.example:443/')).toBe('must be https')
  for (const port of [22, 80, 444, 5432])
    expect(await productionProblem(`https://a.example:${port}/`)).toBe('must have port 443 or 8443')
})

test('headers of a tenant must have valid names and visible values, and must not have a reserved name', () => {
  const problemsOf = (headers: unknown) =>
    tenantHeaders.safeParse(headers).error?.issues.map(({ path, message }) => [path.join('.'), message]) ?? []
  const valid = {
    Authorization: 'Bearer a b',
    'X-A': '~',
    "!#$%&'*+.^_`|~9": '1',
    ['a'.repeat(100)]: 'b'.repeat(1000),
  }
  expect(tenantHeaders.parse(valid)).toEqual(valid)
  expect(tenantHeaders.parse({})).toEqual({})
  for (const name of [
    'Host',
    'content-length',
    'Content-Type',
    'content-encoding',
    'Transfer-Encoding',
    'connection',
    'keep-alive',
    'TE',
    'trailer',
    'upgrade',
    'expect',
    'User-Agent',
    'accept-encoding',
    'Webhook-Id',
    'proxy-authorization',
  ])
    expect(problemsOf({ [name]: 'a' })).toEqual([[name, 'is a header that cannot be set']])
  for (const name of ['', 'a b', 'a:', 'a\r\n', 'ä', 'a(b)', 'a\u0000'])
    expect(problemsOf({ [name]: 'a' })).toEqual([[name, 'is not the name of a header']])
  for (const value of ['', ' a', 'a ', 'a\r\nHost: b', 'a\nb', 'a\u0000', 'a\tb', 'ä', '\u007f'])
    expect(problemsOf({ a: value })).toEqual([
      ['a', 'must be visible ASCII characters, with blanks only between them'],
    ])
  expect(problemsOf({ ['a'.repeat(101)]: 'a' })).toEqual([
    ['a'.repeat(101), 'must have a name of at most 100 characters'],
  ])
  expect(problemsOf({ a: 'b'.repeat(1001) })).toEqual([['a', 'must have at most 1000 characters']])
  expect(problemsOf({ 'X-A': 'a', 'x-a': 'b' })).toEqual([
    ['x-a', 'is given twice: header names are case-insensitive'],
  ])
  const many = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`x-${at}`, 'a']))
  expect(problemsOf(many(20))).toEqual([])
  expect(problemsOf(many(21))).toEqual([['', 'must have at most 20 headers']])
})
