// The Mantine theme: one accent, neutral greys, one size, and colour variables for both schemes.
import {
  ActionIcon,
  Button,
  Checkbox,
  createTheme,
  Drawer,
  Menu,
  Modal,
  NativeSelect,
  PasswordInput,
  Popover,
  Select,
  Switch,
  Tabs,
  Textarea,
  TextInput,
  Tooltip,
  type CSSVariablesResolver,
  type MantineColorsTuple,
} from '@mantine/core'

const SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', sans-serif"
const MONO = "ui-monospace, 'SF Mono', 'Cascadia Code', 'Roboto Mono', 'DejaVu Sans Mono', monospace"

const accent: MantineColorsTuple = [
  '#e9f5f8',
  '#d3e9ef',
  '#a6d3e0',
  '#78bcd0',
  '#55aac4',
  '#2f90ae',
  '#1a7a98',
  '#0b6680',
  '#085269',
  '#063f52',
]
const gray: MantineColorsTuple = [
  '#f8f9f9',
  '#f1f3f4',
  '#e6e9eb',
  '#d8dcdf',
  '#c0c6ca',
  '#969ea4',
  '#69727a',
  '#4c555c',
  '#2f363c',
  '#171b1f',
]
const dark: MantineColorsTuple = [
  '#e4e7e9',
  '#b4bbc1',
  '#98a1a8',
  '#6a737a',
  '#3b4247',
  '#2c3236',
  '#202528',
  '#15181a',
  '#101214',
  '#0b0d0e',
]
const red: MantineColorsTuple = [
  '#fdf0ef',
  '#fadedb',
  '#f3b9b4',
  '#ee9890',
  '#e87a70',
  '#dc5448',
  '#c9392d',
  '#b3261e',
  '#911d16',
  '#70150f',
]

export const theme = createTheme({
  colors: { accent, gray, dark, red },
  primaryColor: 'accent',
  primaryShade: { light: 7, dark: 6 },
  fontFamily: SANS,
  fontFamilyMonospace: MONO,
  fontSizes: { xs: '12px', sm: '13px', md: '14px', lg: '16px', xl: '20px' },
  lineHeights: { xs: '16px', sm: '20px', md: '20px', lg: '24px', xl: '28px' },
  spacing: { xs: '8px', sm: '12px', md: '16px', lg: '24px', xl: '32px' },
  radius: { xs: '4px', sm: '6px', md: '8px', lg: '12px', xl: '16px' },
  defaultRadius: 'sm',
  headings: { fontFamily: SANS, fontWeight: '600' },
  cursorType: 'pointer',
  focusRing: 'auto',
  respectReducedMotion: true,
  components: {
    ActionIcon: ActionIcon.extend({ defaultProps: { variant: 'subtle', color: 'gray', size: 28 } }),
    Button: Button.extend({
      defaultProps: { size: 'xs', variant: 'default' },
      styles: { label: { fontWeight: 500 } },
    }),
    Checkbox: Checkbox.extend({ defaultProps: { size: 'xs' } }),
    Drawer: Drawer.extend({ defaultProps: { transitionProps: { duration: 120 } } }),
    Menu: Menu.extend({
      defaultProps: {
        // The first item gets the focus. An empty element before it would be an invalid child of a menu.
        withInitialFocusPlaceholder: false,
        shadow: 'sm',
        position: 'bottom-end',
        transitionProps: { duration: 80 },
      },
    }),
    Modal: Modal.extend({
      defaultProps: {
        centered: true,
        withCloseButton: false,
        closeButtonProps: { 'aria-label': 'Close' },
        overlayProps: { backgroundOpacity: 0.4 },
        transitionProps: { duration: 100 },
      },
      styles: {
        title: { fontSize: 15, fontWeight: 600, lineHeight: 1.4 },
        header: { paddingBottom: 0, background: 'none' },
        content: { background: 'var(--raised)', border: '1px solid var(--border)' },
      },
    }),
    NativeSelect: NativeSelect.extend({ defaultProps: { size: 'xs' } }),
    PasswordInput: PasswordInput.extend({ defaultProps: { size: 'xs' } }),
    Popover: Popover.extend({
      defaultProps: { shadow: 'sm', position: 'bottom-end', transitionProps: { duration: 80 } },
    }),
    Select: Select.extend({ defaultProps: { size: 'xs' } }),
    Switch: Switch.extend({ defaultProps: { size: 'xs' } }),
    Tabs: Tabs.extend({ defaultProps: { keepMounted: false } }),
    Textarea: Textarea.extend({ defaultProps: { size: 'xs' } }),
    TextInput: TextInput.extend({ defaultProps: { size: 'xs' } }),
    Tooltip: Tooltip.extend({
      defaultProps: { openDelay: 200, withArrow: false, events: { hover: true, focus: true, touch: true } },
    }),
  },
})

/** Maps Mantine's variables to the colours of styles/tokens.css. */
export const variables: CSSVariablesResolver = () => {
  const both = {
    '--mantine-color-body': 'var(--page)',
    '--mantine-color-text': 'var(--text)',
    '--mantine-color-dimmed': 'var(--text-dim)',
    '--mantine-color-placeholder': 'var(--text-faint)',
    '--mantine-color-anchor': 'var(--accent)',
    '--mantine-color-default': 'var(--raised)',
    '--mantine-color-default-hover': 'var(--hover)',
    '--mantine-color-default-color': 'var(--text)',
    '--mantine-color-default-border': 'var(--border-strong)',
    '--mantine-color-error': 'var(--bad)',
  }
  return { variables: {}, light: both, dark: both }
}
