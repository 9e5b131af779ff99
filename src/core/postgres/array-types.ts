// Fault of postgres.js (3.0.0 to 3.4.9; porsager/postgres#1192): on each new connection the driver looks up the types
// of arrays in a promise that is not awaited. If the connection ends meanwhile, the unhandled rejection ends the
// process. Workaround: no lookup (`fetch_types: false`); the types that we use are declared here. Patch for upstream:
// upstream/array-types.patch.

export const ARRAY_TYPES = {
  texts: { to: 1009, from: [1009], serialize: arrayLiteral, parse: elementsOf },
  uuids: { to: 2951, from: [2951], serialize: arrayLiteral, parse: elementsOf },
}

/** The array literal for PostgreSQL. */
function arrayLiteral(values: string[]): string {
  return `{${values.map((value) => `"${value.replaceAll(/["\\]/g, String.raw`\$&`)}"`).join(',')}}`
}

function elementsOf(literal: string): string[] {
  return Array.from(
    literal.matchAll(/"((?:[^"\\]|\\.)*)"|([^,{}"]+)/g),
    ([, quoted, plain]) => plain ?? quoted!.replaceAll(/\\(.)/g, '$1'),
  )
}
