// Values that have broken servers before: pieces of JSON, paths and headers.
import {
  type Arbitrary,
  array,
  constantFrom,
  integer,
  json,
  maxSafeInteger,
  oneof,
  string,
  stringMatching,
} from 'fast-check'

/** A header that no answer may have. */
export const INJECTED = 'x-injected'
/** A property that no object may get. */
const POLLUTED_PROPERTY = 'polluted'

const TEXTS = [
  '',
  ' ',
  '\t',
  '__proto__',
  'constructor',
  "'; drop table payments; --",
  "' or '1'='1",
  '$1',
  '\\',
  '%',
  '{{7*7}}',
  '${7*7}',
  '../../etc/passwd',
  'javascript:alert(1)',
  `x\r\n${INJECTED}: 1`,
  '\u001b[31m',
  '\n{"level":60,"msg":"forged"}\n',
  '\u2028',
  '\u202e',
  '\ufeff',
  'uſd',
  'usd',
  'UsD',
  'XXX',
  'EURO',
  'KWD',
  'JPY',
  '0',
  '-1',
  '1e3',
  '0x10',
  'NaN',
  'true',
  'null',
  '2026-02-30T00:00:00Z',
  '0000-01-01T00:00:00Z',
  '9999-12-31T23:59:59.999999Z',
  '1970-01-01T00:00:00+15:59',
  '00000000-0000-0000-0000-000000000000',
  'ffffffff-ffff-ffff-ffff-ffffffffffff',
  '0198f6f0-1234-7000-8000-123456789abc',
  'x'.repeat(255),
  'x'.repeat(256),
  'x'.repeat(400),
  'x'.repeat(20_000),
  '名'.repeat(5_500),
  '😀'.repeat(128),
]

/** Any text, most of it problematic; no lone surrogates. */
export const badText: Arbitrary<string> = oneof(
  constantFrom(...TEXTS),
  string({ unit: 'binary', maxLength: 20 }).map((text) => text.toWellFormed()),
)

const nested = (open: string, close: string, depth: number) => `${open.repeat(depth)}1${close.repeat(depth)}`

const TOKENS = [
  'null',
  'true',
  'false',
  '[]',
  '{}',
  '[null]',
  '["x"]',
  '{"$ne":null}',
  `{"__proto__":{"${POLLUTED_PROPERTY}":true}}`,
  `{"constructor":{"prototype":{"${POLLUTED_PROPERTY}":true}}}`,
  '{"a":1,"a":2}',
  '{"a":1,"\\u0061":1}',
  '{"":{"":""}}',
  '"\\u0000"',
  '"a\\u0000b"',
  '"\\ud800"',
  '"x\\udfff"',
  '"\\ude00\\ud83d"',
  '"\\ud83d\\ude00"',
  '{"\\u0000":1}',
  '{"\\ud800":1}',
  '"1000"',
  '"\\x"',
  '"a\tb"',
  'NaN',
  'Infinity',
  'undefined',
  "'x'",
  '01',
  '1.',
  '+1',
  '.5',
  '1e',
  '/**/1',
  nested('[', ']', 31),
  nested('[', ']', 33),
  nested('{"a":', '}', 33),
  nested('[', ']', 5_000),
  nested('{"a":', '}', 2_000),
  `"${'x'.repeat(300 * 1024)}"`,
]
const NUMBERS = [
  '0',
  '-0',
  '-1',
  '0.5',
  '1000.01',
  '1e-3',
  '1e3',
  '1e21',
  '1e400',
  '1',
  '2147483648',
  '999999999999',
  '1000000000000',
  '9007199254740991',
  '9007199254740992',
  '9007199254740993',
  '-9007199254740992',
  '12345678901234567890',
]

/** A number as JSON text: a value near a limit, or any integer. */
const badNumber: Arbitrary<string> = oneof(constantFrom(...NUMBERS), maxSafeInteger().map(String))

/** A text in the place of a JSON value; not always JSON. */
export const badToken: Arbitrary<string> = oneof(
  { weight: 3, arbitrary: constantFrom(...TOKENS) },
  { weight: 3, arbitrary: badNumber },
  { weight: 3, arbitrary: badText.map((text) => JSON.stringify(text)) },
  { weight: 1, arbitrary: json({ maxDepth: 4 }) },
)

/** Invalid UTF-8 or binary bytes, as a binary string. */
export const badBytes: Arbitrary<string> = oneof(
  constantFrom(
    '\xff\xfe',
    '\xed\xa0\x80',
    '\xc0\xaf',
    '\xe2\x82',
    '\xf8\x88\x80\x80\x80',
    '\x00',
    '\x1f\x8b\x08\x00',
  ),
  array(integer({ min: 0, max: 255 }), { minLength: 1, maxLength: 16 }).map((bytes) =>
    String.fromCharCode(...bytes),
  ),
)

const SEGMENTS = [
  '',
  '.',
  '..',
  '%2e%2e',
  '%2e%2e%2f%2e%2e%2fhealthz',
  '..%2f..%2fopenapi.json',
  '..%5c..%5cetc%5cpasswd',
  '../../../../etc/passwd',
  '%00',
  'a%00',
  '%ff',
  '%ED%A0%80',
  '%zz',
  '%',
  '%25',
  '%0d%0a',
  `%0d%0a${INJECTED}:%201`,
  '%0a{"level":60,"msg":"forged"}',
  ';a=b',
  '*',
  '__proto__',
  'constructor',
  '0',
  'null',
  'a'.repeat(501),
  'a/'.repeat(300),
  'ａ'.normalize('NFKC'),
]

/** A path segment as it is sent. */
export const badSegment: Arbitrary<string> = oneof(
  constantFrom(...SEGMENTS),
  badText.map((text) => encodeURIComponent(text)),
)

/** Invalid query strings, and unknown parameters. */
export const badQuery: Arbitrary<string> = oneof(
  constantFrom(
    '?',
    '??',
    '?&&&',
    '?%00=1',
    '?%ff',
    '?a=%ED%A0%80',
    '?limit=1&limit=2',
    '?limit[]=1',
    '?limit[$gt]=1',
    '?metadata=x',
    '?metadata[]=x',
    '?metadata[a][b]=x',
    '?metadata[a]=1&metadata[a]=2',
    '?metadata[__proto__]=x',
    '?__proto__=x',
    `?__proto__[${POLLUTED_PROPERTY}]=1`,
    `?constructor[prototype][${POLLUTED_PROPERTY}]=1`,
    '?before=',
    '?limit=٣',
    '?limit=1%20',
    `?x=${'y'.repeat(9000)}`,
    `?${'a=1&'.repeat(2000)}`,
  ),
  badText.map((text) => `?${encodeURIComponent(text)}=1`),
)

/** Header values, including bytes that HTTP forbids. */
export const badHeaderValue: Arbitrary<string> = oneof(
  constantFrom(
    '',
    ' ',
    'a,b',
    'a;b',
    '"',
    '\xff\xfe',
    'x\t',
    `a\r\n${INJECTED}: 1`,
    `a\n${INJECTED}: 1`,
    'a\rb',
    'a\0b',
    '\x1b[31m',
    '{"level":60,"msg":"forged"}',
    '__proto__',
    'x'.repeat(300),
    'x'.repeat(20_000),
    'wait=1, '.repeat(500),
  ),
  stringMatching(/^[\x20-\x7e]{0,40}$/),
)
