# a parser in awk, blank by blank: mawk -f reader.awk < trace.txt
/^#/ { next }
{
    match($1, /-[0-9]+$/)
    if (!RSTART || $2 !~ /^\[/) next
    task = substr($1, 1, RSTART - 1); pid = substr($1, RSTART + 1)
    split($4, time, /[.:]/); name = substr($5, 1, length($5) - 1)
    gsub(/[^0-9]/, "", $2)
    printf "{\"type\":\"event\",\"task\":\"%s\",\"pid\":%d,\"cpu\":%d,\"flags\":\"%s\"", task, pid, $2, $3
    printf ",\"timestamp\":%d%06d000,\"name\":\"%s\",\"fields\":{", time[1], time[2], name
    comma = ""
    for (i = 6; i <= NF; i++) {
        if (!(at = index($i, "=")) || index($i, "(") == 1) continue
        value = substr($i, at + 1)
        if (value !~ /^-?[0-9]+$/ && value !~ /^"/) value = "\"" value "\""
        printf "%s\"%s\":%s", comma, substr($i, 1, at - 1), value
        comma = ","
    }
    print "}}"
}
