// The way from an act to its entry in the audit of the installation.
import { Link } from '@tanstack/react-router'

export function AuditLink({ seq }: { seq: string | null }) {
  return seq === null ? null : (
    <Link to="/ops/audit" search={{ seq }}>
      Audit entry {seq}
    </Link>
  )
}
