// The logo.

export function Logo({ size = 20 }: { size?: number }) {
  return (
    <svg viewBox="0 0 24 24" width={size} height={size} aria-hidden fill="none">
      <rect width="24" height="24" rx="6" fill="var(--mantine-color-accent-7)" />
      <path
        d="M5 9.5c2.3 0 2.3 2 4.7 2s2.3-2 4.6-2 2.4 2 4.7 2M5 14.5c2.3 0 2.3 2 4.7 2s2.3-2 4.6-2 2.4 2 4.7 2M12 4v4"
        stroke="#fff"
        strokeWidth="1.8"
        strokeLinecap="round"
      />
    </svg>
  )
}
