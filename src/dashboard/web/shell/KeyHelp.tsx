// The list of keyboard shortcuts.
import { Modal } from '@mantine/core'
import { Fragment } from 'react'
import { OPERATOR_PAGES, TENANT_PAGES } from '../nav.ts'
import { useSession } from '../session.tsx'

export function KeyHelp({ opened, close }: { opened: boolean; close: () => void }) {
  const { is_operator } = useSession()
  const pages = is_operator ? [...TENANT_PAGES, ...OPERATOR_PAGES] : TENANT_PAGES
  const keys: [keys: string[], what: string][] = [
    [['Ctrl', 'K'], 'Find a page, an action or an id'],
    [['/'], 'Search on this page'],
    [['j'], 'Next row'],
    [['k'], 'Previous row'],
    [['Enter'], 'Open the row'],
    [['?'], 'This list'],
    ...pages.flatMap(({ key, title }): [string[], string][] =>
      key === undefined ? [] : [[['g', key], `Go to ${title}`]],
    ),
  ]
  return (
    <Modal opened={opened} onClose={close} title="Keyboard" withCloseButton size="sm">
      <dl className="keys-list">
        {keys.map(([names, what]) => (
          <Fragment key={what}>
            <dt className="inline" style={{ gap: 4 }}>
              {names.map((name) => (
                <kbd key={name}>{name}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </Fragment>
        ))}
      </dl>
    </Modal>
  )
}
