// Fault of postgres.js (3.0.0 to 3.4.9; porsager/postgres#1192): it looks up the types of arrays on each new connection in a promise that
// nobody awaits. When the connection ends meanwhile, the unhandled rejection ends the process. Healed by no lookup
// (`fetch_types: false`): the types that we use are declared here. To be sent upstream: upstream/array-types.patch.

export const ARRAY_TYPES = {
  texts: { to: 1009, from: [1009], serialize: arrayLiteral, parse: elementsOf },
  uuids: { to: 2951, from: [2951], serialize: arrayLiteral, parse: elementsOf },
}

/** The text of an array as PostgreSQL reads it. */
function arrayLiteral(values: string[]): string {
  return `{${values.map((value) => `"${value.replaceAll(/["\\]/g, String.raw`\$&`)}"`).join(',')}}`
}

function elementsOf(literal: string): string[] {
  return Array.from(
    literal.matchAll(/"((?:[^"\\]|\\.)*)"|([^,{}"]+)/g),
    ([, quoted, plain]) => plain ?? quoted!.replaceAll(/\\(.)/g, '$1'),
  )
}
