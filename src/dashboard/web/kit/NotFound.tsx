// An address without a page.
import { Link } from '@tanstack/react-router'
import { MapPinOff } from 'lucide-react'

export function NotFound() {
  return (
    <div className="state">
      <MapPinOff size={24} strokeWidth={1.5} aria-hidden />
      <h1>There is no such page</h1>
      <p>
        <Link to="/">Go to Overview</Link>
      </p>
    </div>
  )
}
