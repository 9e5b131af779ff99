// Presents suppressions with their decrypted addresses.
import type { SuppressionRow } from '#domain/suppressions/find.ts'
import { suppressionContext, type Suppression } from '#domain/suppressions/suppression.ts'
import type { RouteContext } from '../../context.ts'

/** A suppression with its decrypted address. */
export type SuppressionView = (row: SuppressionRow) => Suppression

export function createSuppressionView({ vault }: RouteContext): SuppressionView {
  return ({ sealed, ...suppression }) => {
    const { tenant_id, id } = suppression
    return { ...suppression, address: vault.open(sealed, suppressionContext(tenant_id, id)) }
  }
}
